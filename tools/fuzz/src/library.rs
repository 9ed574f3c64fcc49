//! Libraries as `inspect` and `doctor` read them: symbols, what they need, their manifests; of those for other systems all that
//! the doctor judges without running. What ELF files need lies around on the machine, and is no input.

use std::path::Path;
use xla_ffi_doctor::library::{self, System};
use xla_ffi_doctor::{Examination, manifest};

pub(crate) fn attack(input: &[u8]) {
    let path = Path::new("fuzzed.so");
    match library::read(path, input) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(facts) => {
            assert!(facts.functions.is_subset(&facts.exports));
            if facts.machine.system != System::Linux {
                // Parts of a fat file that nobody has asked for so far may not be libraries.
                let told = Examination::of_bytes(path, input);
                assert!(told.is_ok_and(|told| told.facts == facts) || !facts.others.is_empty());
            }
        }
    }
    if let Err(error) = manifest::read(input) {
        assert!(!error.to_string().is_empty());
    }
}
