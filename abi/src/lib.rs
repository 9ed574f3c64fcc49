//! The layouts of the XLA FFI ABI as data: read from three independent places, compared,
//! classified and explained.

#[cfg(not(unix))]
compile_error!(
    "xla-ffi-abi and what is built on it need a POSIX system: they run compilers, within limits"
);

mod apart;
pub mod catalogue;
mod clang;
mod compile;
pub mod declared;
pub mod diff;
mod distinct;
pub mod draw;
pub mod dwarf;
pub mod emit;
pub mod header;
mod identifier;
pub mod meaning;
pub mod mirror;
pub mod model;
mod number;
mod prototypes;
pub mod reader;
pub mod snapshot;
pub mod spelling;
pub mod tool;
pub mod watch;

pub use xla_ffi_sys;
