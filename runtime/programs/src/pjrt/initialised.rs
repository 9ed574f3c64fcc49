//! The plugins that were initialised, by their tables.

use super::api::Api;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use xla_ffi_runtime::Error;

/// Tables that are initialised, which a plugin wants once a process, and the files that they came from.
pub(super) static INITIALISED: Mutex<Vec<(Api, PathBuf)>> = Mutex::new(Vec::new());

/// The error with the name of the plugin.
pub(super) fn named(api: Api, error: Error) -> Error {
    let initialised = INITIALISED.lock().unwrap_or_else(PoisonError::into_inner);
    match initialised.iter().find(|(known, _)| *known == api) {
        Some((_, path)) => error.within(format_args!("PJRT plugin {}", path.display())),
        None => error,
    }
}
