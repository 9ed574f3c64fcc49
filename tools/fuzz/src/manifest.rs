//! Manifests. The first byte of an input says whether a payload follows or a whole section, and where
//! that lies.

use std::collections::BTreeSet;
use xla_ffi_doctor::manifest::{self, Manifest};

pub(crate) fn attack(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else {
        return;
    };
    let found = match first {
        b'p' => manifest::parse(bytes).map(|one| vec![one]),
        address => manifest::read_section(bytes, address.into()),
    };
    match found {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(manifests) => {
            assert!(!manifests.is_empty());
            manifests.iter().for_each(check);
        }
    }
}

/// What a loader may rely on.
fn check(manifest: &Manifest) {
    let mut names = BTreeSet::new();
    for handler in &manifest.handlers {
        assert!(!handler.name.is_empty() && names.insert(&handler.name));
        // One that is newer than this program is known by its number alone.
        let _ = handler.floor_revision();
        for (stage, symbol) in handler.stages.iter() {
            assert!(!stage.is_empty() && !symbol.is_empty() && symbol.is_ascii());
            assert!(!symbol.contains(|c: char| c.is_control() || c.is_whitespace()));
        }
    }
}
