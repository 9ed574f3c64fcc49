//! The library of one handler whose size and building time `cargo xtask bench` tells: a crate of its own there.

use xla_ffi::prelude::*;

/// y = x / sqrt(mean(x²) + eps), over the last dimension.
#[xla_ffi::handler(shape = "... n -> ... n")]
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

xla_ffi::library! { rms_norm }
