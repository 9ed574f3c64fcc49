//! Rust handler libraries; each file beside `Cargo.toml` is one shared library.
