//! Debug information of a library.

use crate::change::{Dice, binary, debug, in_place};
use xla_ffi_abi::dwarf;

pub(crate) fn attack(input: &[u8]) {
    match dwarf::read_library(input) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(found) => assert!(found.iter().all(|abi| !abi.structs.is_empty())),
    }
}

/// Changes what the information says, or the tables in which it lies.
pub(crate) fn change(input: &[u8], dice: &mut Dice) -> Vec<u8> {
    // The longer a file, the more it may ask of who reads its debug information, and the later that ends.
    if dice.below(16) == 0 {
        return [input, &vec![0; dice.below(64)]].concat();
    }
    in_place(input, dice, |input, dice| match dice.below(4) {
        0 => binary::change(input, dice),
        _ => debug::change(input, dice),
    })
}
