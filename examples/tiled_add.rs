//! The example of XLA's custom-call documents: `A[i] = B[i % 128] + C[i]`, with the sizes taken
//! from the operands.
#![forbid(unsafe_code)]

use xla_ffi::prelude::*;

/// Adds `b`, repeated as often as it takes, to `c`.
#[xla_ffi::handler(shape = "m, n -> n")]
fn tiled_add(b: Buffer<f32, 1>, c: Buffer<f32, 1>, mut a: Out<f32, 1>) -> Result<()> {
    if b.is_empty() && !c.is_empty() {
        return Err(Error::invalid_argument(
            "`b` is empty: there is nothing to repeat",
        ));
    }
    a.write_iter(c.iter().zip(b.iter().cycle()).map(|(c, b)| b + c))?;
    Ok(())
}

xla_ffi::library! { tiled_add }
