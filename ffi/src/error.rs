//! Errors that a handler returns to its host.

pub mod panics;
pub(crate) mod problems;
pub(crate) mod wording;

pub use xla_ffi_sys::{Error, ErrorCode, Result};
