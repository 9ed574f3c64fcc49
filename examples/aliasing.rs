//! An operand that is argument and result at once: written in place, without a copy.
#![forbid(unsafe_code)]

use xla_ffi::prelude::*;

/// y = a x + y, in place. A call in which `y` is not aliased with the result is refused.
#[xla_ffi::handler(shape = "n, n -> n")]
fn axpy(x: Buffer<f32, 1>, mut y: InOut<f32, 1>, a: f32) -> Result<()> {
    for (y, x) in y.iter_mut().zip(&*x) {
        *y += a * x;
    }
    Ok(())
}

xla_ffi::library! { axpy }
