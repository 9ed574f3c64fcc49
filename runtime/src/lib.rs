//! wip
mod attribute;
pub mod dtype;
mod mlir;
pub mod number;
mod parse;
mod shape;
mod status;
mod tensor;
pub use attribute::*;
pub use dtype::DType;
pub use parse::ParseError;
pub use shape::Shape;
pub use status::*;
pub use tensor::*;
