//! The example libraries that tests load.

use crate::{root, target_folder};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the Rust examples and fixtures, built in release mode by the cargo that runs the tests, unless
/// `XLA_FFI_RUST_EXAMPLES` names it.
///
/// # Panics
/// Where they do not build, and outside `cargo test`.
#[must_use]
pub fn rust_examples() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(folder) = std::env::var_os("XLA_FFI_RUST_EXAMPLES") {
            return folder.into();
        }
        let cargo = std::env::var_os("CARGO").expect("cargo runs the tests");
        let status = Command::new(cargo)
            .current_dir(root())
            .args([
                "build",
                "--quiet",
                "--release",
                "--package",
                "xla-ffi-examples",
                "--package",
                "xla-ffi-fixtures",
                "--examples",
            ])
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the examples do not build");
        target_folder().join("release/examples")
    })
}
