//! The layouts of the XLA FFI ABI as data: read from headers or from debug information, compared, classified and
//! explained.
//!
//! All functions run in the calling process. A header can crash or hang libclang, and so this process.

#[cfg(not(unix))]
compile_error!("xla-ffi-abi and the crates that depend on it need a POSIX system");

pub mod catalogue;
mod change;
mod clang;
pub mod declared;
pub mod diff;
pub mod draw;
pub mod dwarf;
pub mod emit;
pub mod header;
pub mod meaning;
pub mod mirror;
pub mod model;
pub mod snapshot;
pub mod spelling;

pub use xla_ffi_sys;
