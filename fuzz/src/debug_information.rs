//! Debug information, by which layouts are read: of a library, and of a header that was compiled.

use xla_ffi_abi::dwarf;

pub(crate) fn attack(input: &[u8]) {
    match dwarf::read_library(input) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(found) => assert!(found.iter().all(|abi| !abi.structs.is_empty())),
    }
    if let Err(error) = dwarf::read_subject(input) {
        assert!(!error.to_string().is_empty());
    }
}
