//! RMS normalisation over the last dimension, and its gradient. The handler names the gradient's handler, so
//! that `jax.grad` finds it.
#![forbid(unsafe_code)]

use xla_ffi::prelude::*;

/// y = x / sqrt(mean(x²) + eps), over the last dimension.
#[xla_ffi::handler(shape = "... n -> ... n", vjp = "rms_norm_backward", residuals = ["x"])]
fn rms_norm(x: Buffer<f32>, mut y: Out<f32>, #[attr(default = 1e-5)] eps: f32) -> Result<()> {
    for (x, y) in x.rows().zip(y.rows_uninit()) {
        let mean_square = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
        let scale = 1.0 / (mean_square + eps).sqrt();
        for (x, y) in x.iter().zip(y) {
            y.write(x * scale);
        }
    }
    Ok(())
}

/// dx = s (g - x s² mean(g x)) with s = 1 / sqrt(mean(x²) + eps), for the gradient g of y.
#[xla_ffi::handler(shape = "... n, ... n -> ... n")]
fn rms_norm_backward(
    x: Buffer<f32>,
    g: Buffer<f32>,
    mut dx: Out<f32>,
    #[attr(default = 1e-5)] eps: f32,
) -> Result<()> {
    for ((x, g), dx) in x.rows().zip(g.rows()).zip(dx.rows_uninit()) {
        let n = x.len() as f32;
        let mean_square = x.iter().map(|x| x * x).sum::<f32>() / n;
        let mean_product = x.iter().zip(g).map(|(x, g)| x * g).sum::<f32>() / n;
        let scale = 1.0 / (mean_square + eps).sqrt();
        for ((x, g), dx) in x.iter().zip(g).zip(dx) {
            dx.write(scale * (g - x * scale * scale * mean_product));
        }
    }
    Ok(())
}

xla_ffi::library! { rms_norm, rms_norm_backward }
