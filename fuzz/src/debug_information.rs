//! Debug information, by which layouts are read: of a library, and of a header that was compiled.

use xla_ffi_abi::{dwarf, snapshot};

pub(crate) fn attack(input: &[u8]) {
    match dwarf::read_library(input) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(found) => {
            for abi in &found {
                assert!(!abi.structs.is_empty());
                snapshot::identify(abi).expect("the snapshots are fine");
            }
        }
    }
    match dwarf::read_subject(input) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(abi) => {
            snapshot::identify(&abi).expect("the snapshots are fine");
        }
    }
}
