//! Debug information of a library.

use xla_ffi_abi::dwarf;

pub(crate) fn attack(input: &[u8]) {
    match dwarf::read_library(input) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(found) => assert!(found.iter().all(|abi| !abi.structs.is_empty())),
    }
}
