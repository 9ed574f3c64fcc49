//! y = factor x
#![forbid(unsafe_code)]

use xla_ffi::prelude::*;

/// y = factor x, element by element.
#[xla_ffi::handler(shape = "... -> ...")]
fn scale(x: Buffer<f32>, mut y: Out<f32>, factor: f32) -> Result<()> {
    for (x, y) in x.as_slice().iter().zip(y.as_uninit()) {
        y.write(factor * x);
    }
    Ok(())
}

xla_ffi::library! { scale }
