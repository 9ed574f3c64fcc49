//! The registered handlers of a runtime, by name and platform.

use super::{Bundle, Metadata};
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Returns the canonical name of a platform: lower case, and `"cpu"` instead of `"host"`.
#[must_use]
pub fn canonical_platform(platform: &str) -> String {
    match platform.to_ascii_lowercase().as_str() {
        "host" => "cpu".into(),
        "gpu" => "cuda".into(),
        other => other.into(),
    }
}

/// The handler that is registered under a name for a platform.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    pub(crate) bundle: Bundle,
    /// The bundle's metadata, including the traits of the registration.
    pub(crate) metadata: Option<Metadata>,
}

/// The handlers of one runtime, by name and canonical platform.
#[derive(Default)]
pub(crate) struct Registrations(Mutex<BTreeMap<(String, String), Registration>>);

impl Registrations {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Registration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a handler. A repeated registration of the same handler succeeds; a different handler for the same
    /// name and platform is an error.
    pub(crate) fn insert(&self, name: &str, platform: String, new: Registration) -> Result<()> {
        let key = (name.to_owned(), platform);
        let mut handlers = self.lock();
        if let Some(known) = handlers.get(&key) {
            if known.bundle.is_same(&new.bundle) && known.metadata == new.metadata {
                return Ok(());
            }
            return Err(Error::new(
                ErrorCode::InvalidArgument,
                format!(
                    "another handler is registered as '{name}' for platform '{}'",
                    key.1
                ),
            ));
        }
        handlers.insert(key, new);
        Ok(())
    }

    /// Returns the registration of a name for a canonical platform.
    pub(crate) fn find(&self, name: &str, platform: &str) -> Option<Registration> {
        let key = (name.to_owned(), platform.to_owned());
        self.lock().get(&key).copied()
    }

    /// Lists all registrations as `'name' on platform`, for error messages.
    pub(crate) fn describe(&self) -> String {
        let handlers = self.lock();
        let known: Vec<_> = handlers
            .keys()
            .map(|(name, at)| format!("'{name}' on {at}"))
            .collect();
        if known.is_empty() {
            "none".into()
        } else {
            known.join(", ")
        }
    }
}

/// Tests every order in which two threads can register.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    unsafe extern "C" fn nothing(
        _: *mut xla_ffi_sys::XLA_FFI_CallFrame,
    ) -> *mut xla_ffi_sys::XLA_FFI_Error {
        std::ptr::null_mut()
    }

    /// If two threads register different handlers under one name, one registration succeeds and the other fails.
    #[test]
    fn loom_one_of_two_handlers_stays() {
        for other_traits in [0, 1] {
            loom::model(move || {
                let handlers = Arc::new(Registrations::default());
                let there = handlers.clone();
                let insert = |handlers: &Registrations, traits: u32| {
                    let new = Registration {
                        // SAFETY: the function is never called.
                        bundle: unsafe { Bundle::execute(nothing) }.with_traits(traits.into()),
                        metadata: None,
                    };
                    handlers.insert("a", "cpu".into(), new).is_ok()
                };
                let other = loom::thread::spawn(move || insert(&there, other_traits));
                let here = insert(&handlers, 0);
                let there = other.join().unwrap();
                let known = handlers.find("a", "cpu").unwrap();
                assert_eq!(here && there, other_traits == 0);
                assert_eq!(
                    known.bundle.traits.bits(),
                    if here { 0 } else { other_traits }
                );
            });
        }
    }
}
