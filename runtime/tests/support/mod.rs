//! Builds handler libraries for tests, and counts what cannot be built as skipped.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod handlers;
pub(crate) mod rules;

use std::path::{Path, PathBuf};
use xla_ffi_testing::compiler::shared_library;

/// Compiles `source` into a shared library of this package's tests.
pub(crate) fn build(test: &str, source: &Path, name: &str, flags: &[String]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    shared_library(&folder, test, source, name, flags)
}

/// A file of the tests' folder.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}
