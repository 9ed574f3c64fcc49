//! Cargo, and the environments' Python, as the tasks run them.

use crate::cuda;
use crate::python::Python;
use crate::venv::Venv;
use std::path::Path;
use std::process::Command;

/// The cargo that runs this task, in the checkout.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // What `cargo run` sets for xtask itself would make the child's builds look different.
    command.env_remove("CARGO_MANIFEST_DIR");
    // One compiler for the GPU's kernels in all steps, so that nothing is built twice.
    if let Some(nvcc) = cuda::at_hand() {
        command.env("XLA_FFI_NVCC", nvcc);
    }
    command
}

/// Builds the Rust example libraries into `target/release/examples`.
pub(crate) fn build_examples(root: &Path) -> Command {
    let mut command = cargo(root);
    command.args([
        "build",
        "--release",
        "--package",
        "xla-ffi-examples",
        "--package",
        "xla-ffi-fixtures",
        "--package",
        "xla-ffi-record",
        "--examples",
        "--lib",
    ]);
    command
}

/// A driver of `tests/jax` in an environment; it finds the loader under `python`.
pub(crate) fn python_driver(root: &Path, venv: &Venv, driver: &str) -> Command {
    let mut command = Python::command(&venv.python);
    command
        .arg(root.join("tests/jax").join(driver))
        .current_dir(root)
        .env("PYTHONPATH", root.join("python"))
        .env("XLA_FFI_CLI", root.join("target/debug/xla-ffi"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("JAX_PLATFORMS", "cpu");
    command
}
