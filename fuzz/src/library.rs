//! Libraries as `inspect` and `doctor` read them: symbols, what they need, their manifests.

use std::path::Path;
use xla_ffi_doctor::{library, manifest};

pub(crate) fn attack(input: &[u8]) {
    match library::read(Path::new("fuzzed.so"), input) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(facts) => assert!(facts.functions.is_subset(&facts.exports)),
    }
    if let Err(error) = manifest::read(input) {
        assert!(!error.to_string().is_empty());
    }
}
