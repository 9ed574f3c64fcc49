//! What calls are made of: element types, shapes, tensors, attributes.

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
