//! Libraries as `inspect` and `doctor` read them: symbols, what they need, their manifests; of those for other systems all that
//! the doctor judges without running. What ELF files need lies around on the machine, and is no input.

use crate::change::{Dice, binary, debug, in_place};
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

/// Changes the manifest, what tables of the file say, or its debug information, which is judged, too.
pub(crate) fn change(input: &[u8], dice: &mut Dice) -> Vec<u8> {
    let manifest = (dice.below(3) == 0).then(|| binary::manifest::change(input, dice));
    manifest.flatten().unwrap_or_else(|| {
        in_place(input, dice, |input, dice| match dice.below(4) {
            0 => debug::change(input, dice).or_else(|| binary::change(input, dice)),
            _ => binary::change(input, dice),
        })
    })
}
