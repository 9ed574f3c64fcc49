//! The layouts of the XLA FFI ABI as data. The crate reads layouts from headers or debug information, compares them,
//! and classifies and explains the differences.
//!
//! All functions run in the calling process. If a header crashes or hangs libclang, the calling process crashes or
//! hangs.

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
