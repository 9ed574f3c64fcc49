//! Handlers by name and platform.

use crate::{Bundle, Code, Error, Metadata, Result};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What stands under a name for a platform.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    pub(crate) bundle: Bundle,
    /// What the bundle says about itself, with the traits of the registration.
    pub(crate) metadata: Option<Metadata>,
    pub(crate) traits: u32,
}

/// The handlers of one runtime, by name and canonical platform.
#[derive(Default)]
pub(crate) struct Registrations(Mutex<BTreeMap<(String, String), Registration>>);

impl Registrations {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Registration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a handler: an equal registration is fine, another one under the name is not.
    pub(crate) fn insert(&self, name: &str, platform: String, new: Registration) -> Result<()> {
        let key = (name.to_owned(), platform);
        let mut handlers = self.lock();
        if let Some(known) = handlers.get(&key) {
            if known.bundle.is_same(&new.bundle)
                && known.metadata == new.metadata
                && known.traits == new.traits
            {
                return Ok(());
            }
            return Err(Error::new(
                Code::InvalidArgument,
                format!(
                    "another handler is registered as '{name}' for platform '{}'",
                    key.1
                ),
            ));
        }
        handlers.insert(key, new);
        Ok(())
    }

    /// What is registered under a name for a platform (canonical).
    pub(crate) fn find(&self, name: &str, platform: &str) -> Option<Registration> {
        let key = (name.to_owned(), platform.to_owned());
        self.lock().get(&key).copied()
    }

    /// Everything that is registered, for people: `'name' on platform`.
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
