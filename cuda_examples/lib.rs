//! GPU handlers in Rust; see the examples.
