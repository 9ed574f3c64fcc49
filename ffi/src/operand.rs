//! Arguments and results.

#[cfg(feature = "ndarray")]
pub(crate) mod arrays;
pub(crate) mod buffer;
pub(crate) mod device;
pub(crate) mod element;
pub(crate) mod inout;
pub(crate) mod out;
pub(crate) mod packed;
pub(crate) mod rows;
pub(crate) mod token;
pub(crate) mod uninit;
pub(crate) mod untyped;
pub(crate) mod writer;
