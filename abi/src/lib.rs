//! The layouts of the XLA FFI ABI as data: read from three independent places, compared,
//! classified and explained.

pub mod manifest;
