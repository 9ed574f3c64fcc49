//! The legacy targets of a runtime.

use crate::host::legacy_targets::{ApiVersion, Function};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The targets of one runtime.
#[derive(Default)]
pub(crate) struct Targets(Mutex<BTreeMap<(String, String), Function>>);

impl Targets {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Function>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The API versions under which a name may be called on a platform (canonical); empty where
    /// there is none of that name.
    pub(crate) fn versions(&self, name: &str, platform: &str) -> Vec<ApiVersion> {
        let targets = self.lock();
        let found = targets.get(&(name.to_owned(), platform.to_owned()));
        found.map_or_else(Vec::new, |function| versions(function, platform))
    }
}

/// The API versions under which a function may be called on a platform.
pub(super) fn versions(function: &Function, platform: &str) -> Vec<ApiVersion> {
    match function.signature {
        Some(signature) => signature.versions(platform),
        None => ApiVersion::ALL[..3].to_vec(),
    }
}
