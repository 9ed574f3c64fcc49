//! Any number of operands.
#![forbid(unsafe_code)]

use xla_ffi::prelude::*;

/// y = Σ weights[k] xs[k], for arrays of one shape.
#[xla_ffi::handler(shape = "...* -> ...")]
fn weighted_sum(xs: RemainingArgs, mut y: Out<f32>, weights: &[f32]) -> Result<()> {
    if xs.len() != weights.len() {
        return Err(Error::invalid_argument(format!(
            "{} arrays, but {} `weights`",
            xs.len(),
            weights.len()
        )));
    }
    let y = y.fill(0.0);
    for (k, weight) in weights.iter().enumerate() {
        let x = xs.get::<f32, ANY_RANK>(k)?;
        for (y, x) in y.iter_mut().zip(&*x) {
            *y += weight * x;
        }
    }
    Ok(())
}

xla_ffi::library! { weighted_sum }
