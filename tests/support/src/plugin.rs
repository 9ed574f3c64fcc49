//! The PJRT plugin that tests run.

use crate::skip;
use std::path::PathBuf;

/// The file that `XLA_FFI_PJRT_PLUGIN` names, or `None`, told.
pub fn plugin(test: &str) -> Option<PathBuf> {
    let found = std::env::var_os("XLA_FFI_PJRT_PLUGIN").map(PathBuf::from);
    if found.is_none() {
        skip(
            test,
            "XLA_FFI_PJRT_PLUGIN is not set (`cargo xtask test` sets it where the index has the plugin)",
        );
    }
    found
}
