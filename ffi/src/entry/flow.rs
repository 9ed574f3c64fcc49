//! How a call went, between the handler and its entry point.

use crate::error::Error;
use std::ffi::c_void;

/// How a call went.
#[derive(Debug)]
pub enum Flow {
    /// It worked.
    Done,
    /// It is under way; the frame gets this future.
    Pending(*mut c_void),
    /// A parameter did not decode; the handler did not run.
    Mismatch,
    /// It failed.
    Failed(Error),
    /// It failed, and this is the embedded runtime's own error for it.
    #[cfg(feature = "internal")]
    Status(Box<xla_ffi_runtime::Error>),
}
