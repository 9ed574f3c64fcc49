//! Values as text and as files.

mod display;
mod mlir;
pub mod npy;
pub(crate) mod parse;
pub mod spec;
