//! A loop on the host's thread pool. The calling thread takes part, so that a pool that is small,
//! busy or absent costs time and nothing else.
#![forbid(unsafe_code)]

use xla_ffi::prelude::*;

/// y = exp(x) / Σ exp(x), over the last dimension: one row a task.
#[xla_ffi::handler(shape = "... n -> ... n")]
fn softmax(x: Buffer<f32>, mut y: Out<f32>, pool: ThreadPool) -> Result<()> {
    let n = x.dims().last().map_or(1, |n| *n.max(&1));
    let x = x.as_slice();
    pool.for_each_chunk(y.as_uninit(), n, |start, y| {
        let x = &x[start..][..y.len()];
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = x.iter().map(|x| (x - max).exp()).sum();
        for (x, y) in x.iter().zip(y) {
            y.write((x - max).exp() / sum);
        }
    });
    Ok(())
}

xla_ffi::library! { softmax }
