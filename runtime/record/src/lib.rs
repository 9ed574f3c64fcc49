//! Records the calls of XLA custom-call handlers, and reads the records.
//!
//! *Recording* happens in the process of the host, through this crate's shared library: a function of its
//! own stands before each function of a handler ([`xla_ffi_record_interpose`]), writes what the host
//! says into a file, calls the handler, and writes what came of it. Nothing of the handler's library
//! changes, whatever it was built with, and a handler that is not interposed costs nothing. Python's
//! `xla_ffi.record` drives it.
//!
//! *Reading* ([`Recorded::read`]) needs neither. One call is one file, whose format stands in
//! [`mod@file`]; a call that ended its process leaves a file that says so.

mod attribute;
mod call;
mod exports;
pub mod file;
mod frame;
mod hooks;
mod host;
mod read;
mod running;
mod session;
mod trampoline;
mod write;

pub use attribute::{Attributes, Value};
pub use call::{Call, Context, Data, End, Operand, Outcome, State, bytes_of};
pub use exports::*;
pub use read::{ReadError, Recorded, head};
