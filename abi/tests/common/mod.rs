//! What the tests share: where headers lie, and how a test says that it cannot run.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("abi/ lies in the repository")
        .to_owned()
}

#[path = "../../../tests/skip/mod.rs"]
mod skip;
pub(crate) use skip::skip;

/// The folder of all versions' headers; `None` where the task runner did not set it.
pub(crate) fn headers() -> Option<PathBuf> {
    std::env::var_os("XLA_FFI_JAXLIB_HEADERS").map(PathBuf::from)
}

/// `xla/ffi/api` of one jaxlib.
pub(crate) fn api_folder(headers: &Path, version: &str) -> PathBuf {
    headers.join(version).join("xla/ffi/api")
}

/// The project's list of jaxlib releases.
pub(crate) fn listed() -> Vec<String> {
    std::fs::read_to_string(root().join("jaxlibs.txt"))
        .expect("jaxlibs.txt is there")
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}
