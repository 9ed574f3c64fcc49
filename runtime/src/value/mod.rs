//! The values of calls: element types, shapes, tensors and attributes.

pub(crate) mod array_shape;
#[cfg(feature = "ndarray")]
mod arrays;
pub(crate) mod attribute;
pub(crate) mod attribute_array;
pub mod dlpack;
pub mod dtype;
pub(crate) mod memory;
pub(crate) mod parse;
pub mod scalar_codec;
pub(crate) mod shape;
pub(crate) mod tensor;
pub(crate) mod tree;
pub(crate) mod value_shape;

pub use array_shape::ArrayShape;
pub use attribute::{Attribute, Attributes};
pub use attribute_array::AttributeArray;
pub use dtype::DType;
pub use memory::{ALIGNMENT, LEAST_ALIGNMENT};
pub use parse::ParseError;
pub use shape::Shape;
pub use tensor::Tensor;
pub use tree::Tree;
pub use value_shape::{MAX_DEPTH, MAX_NODES, ValueShape};
pub(crate) use xla_ffi_sys::Element;
