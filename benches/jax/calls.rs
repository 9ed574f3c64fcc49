//! What `cargo xtask bench --jax` calls in Rust: copies, whose own work is small, and two functions over rows on the
//! host's thread pool. `calls.cc` and `calls_tvm.c` have the same copies.

use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn copy_1(x: Buffer<f32, 1>, mut y: Out<f32, 1>) -> Result<()> {
    y.copy_from(&x)?;
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "8 arguments and 8 results")]
#[xla_ffi::handler]
fn copy_8(
    a: Buffer<f32, 1>,
    b: Buffer<f32, 1>,
    c: Buffer<f32, 1>,
    d: Buffer<f32, 1>,
    e: Buffer<f32, 1>,
    f: Buffer<f32, 1>,
    g: Buffer<f32, 1>,
    h: Buffer<f32, 1>,
    mut i: Out<f32, 1>,
    mut j: Out<f32, 1>,
    mut k: Out<f32, 1>,
    mut l: Out<f32, 1>,
    mut m: Out<f32, 1>,
    mut n: Out<f32, 1>,
    mut o: Out<f32, 1>,
    mut p: Out<f32, 1>,
) -> Result<()> {
    i.copy_from(&a)?;
    j.copy_from(&b)?;
    k.copy_from(&c)?;
    l.copy_from(&d)?;
    m.copy_from(&e)?;
    n.copy_from(&f)?;
    o.copy_from(&g)?;
    p.copy_from(&h)?;
    Ok(())
}

/// Eight sums at once: a single one cannot be vectorised, since the order of additions matters.
fn sum(row: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0_f32; 8];
    let chunks = row.chunks_exact(8);
    let rest: f32 = chunks.remainder().iter().map(|x| of(*x)).sum();
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += of(*x);
        }
    }
    sums.iter().sum::<f32>() + rest
}

fn length(dims: &[usize]) -> usize {
    dims.last().map_or(1, |n| *n.max(&1))
}

#[xla_ffi::handler(shape = "... n -> ... n")]
fn rms_norm(x: Buffer<f32>, mut y: Out<f32>, pool: ThreadPool) -> Result<()> {
    let n = length(x.dims());
    let x = x.as_slice();
    pool.for_each_chunk(y.as_uninit(), n, |start, y| {
        let x = &x[start..][..y.len()];
        let scale = 1.0 / (sum(x, |x| x * x) / n as f32 + 1e-5).sqrt();
        for (x, y) in x.iter().zip(y) {
            y.write(x * scale);
        }
    });
    Ok(())
}

#[xla_ffi::handler(shape = "... n -> ... n")]
fn softmax(x: Buffer<f32>, mut y: Out<f32>, pool: ThreadPool) -> Result<()> {
    let n = length(x.dims());
    let x = x.as_slice();
    pool.for_each_chunk(y.as_uninit(), n, |start, y| {
        let x = &x[start..][..y.len()];
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for (x, y) in x.iter().zip(&mut *y) {
            sum += *y.write((x - max).exp());
        }
        for y in y {
            // SAFETY: written by the loop above.
            let value = unsafe { y.assume_init() };
            y.write(value / sum);
        }
    });
    Ok(())
}

xla_ffi::library! { copy_1, copy_8, rms_norm, softmax }
