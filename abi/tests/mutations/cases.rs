//! Single edits to a header, and the changes of their own that each has to be told as.

mod harmless;
mod names;
mod places;
mod types;

use crate::edit::Edit;
use xla_ffi_abi::diff::Class;

/// What an edit is, and the changes of their own that it has to be told as.
pub(crate) type Case = (&'static str, Edit, &'static [(Class, &'static str)]);

pub(crate) use harmless::HARMLESS;

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    places::CASES.iter().chain(types::CASES).chain(names::CASES)
}
