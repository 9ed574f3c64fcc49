//! Elements of less than a byte: two 4-bit integers in each, unpacked as they are read.
#![forbid(unsafe_code)]

use xla_ffi::{Packed, S4, prelude::*};

/// w[i, j] = scale[i] q[i, j]: the weights of a quantized layer, one scale a row.
#[xla_ffi::handler(shape = "n m, n -> n m")]
fn dequantize(q: Packed<S4, 2>, scale: Buffer<f32, 1>, mut w: Out<f32, 2>) -> Result<()> {
    let columns = w.shape()[1].max(1);
    let values = q.iter().enumerate();
    w.write_iter(values.map(|(i, q)| scale[i / columns] * f32::from(q)))?;
    Ok(())
}

xla_ffi::library! { dequantize }
