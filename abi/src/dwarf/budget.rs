//! How much a file may ask of its reader.

use crate::header::Error;
use std::cell::Cell;

/// What one byte of a file may cost, in bytes of text and entries looked at.
const A_BYTE: usize = 64;

/// Types in debug information may refer to one another in circles: a function that takes itself twice takes
/// 2³² entries to tell 32 levels deep, a long name that a thousand entries share takes its length a thousand
/// times. Whoever reads them spends from what the length of the file allows, which sound files never use up.
pub(super) struct Budget(Cell<usize>);

impl Budget {
    pub(super) fn of(library: &[u8]) -> Self {
        Self(Cell::new(A_BYTE.saturating_mul(library.len())))
    }

    /// Takes `cost` from what is left.
    pub(super) fn spend(&self, cost: usize) -> Result<(), Error> {
        let left = self.0.get().checked_sub(cost).ok_or_else(|| {
            Error::Dwarf(format!(
                "its types refer to one another so often that they take more than {A_BYTE} times the file to tell"
            ))
        })?;
        self.0.set(left);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_cost_as_much_as_its_length_allows() {
        let budget = Budget::of(&[0; 10]);
        budget.spend(10 * A_BYTE).unwrap();
        budget.spend(0).unwrap();
        let error = budget.spend(1).unwrap_err().to_string();
        assert!(error.contains("more than 64 times the file"), "{error}");
    }
}
