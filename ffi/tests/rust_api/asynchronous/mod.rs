//! Calls that complete later: promises, parts, `async fn`.

mod functions;
mod parts;
mod promises;

use crate::kit::shape;
use xla_ffi_runtime::DType;

fn f32s(dims: &[i64]) -> xla_ffi_runtime::Shape {
    shape(DType::F32, dims)
}
