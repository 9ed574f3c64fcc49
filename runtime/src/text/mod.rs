//! Values as text and as files.

mod display;
mod mlir;
pub mod npy;
pub mod spec;
