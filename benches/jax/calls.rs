//! What `cargo xtask bench --jax` calls in Rust: copies, whose own work is small, two functions over rows on the
//! host's thread pool, and two loops on that pool and on rayon's. `calls.cc` and `calls_tvm.c` have the same copies.

use rayon::prelude::*;
use std::mem::MaybeUninit;
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

/// As many elements as a task takes.
const GRAIN: usize = 16_384;

/// A body of a loop over elements that costs what memory does.
fn scale(x: f32) -> f32 {
    2.0 * x + 1.0
}

/// One that computes: steps towards the square root, a division each.
fn newton(x: f32) -> f32 {
    let mut root = x;
    for _ in 0..16 {
        root = 0.5 * (root + x / root);
    }
    root
}

fn each(x: &[f32], y: &mut [MaybeUninit<f32>], body: impl Fn(f32) -> f32) {
    for (x, y) in x.iter().zip(y) {
        y.write(body(*x));
    }
}

/// A body on the calling thread, on the host's pool, and on rayon's.
macro_rules! on_threads {
    ($body:ident: $one:ident $host:ident $rayon:ident) => {
        #[xla_ffi::handler(shape = "n -> n")]
        fn $one(x: Buffer<f32, 1>, mut y: Out<f32, 1>) -> Result<()> {
            each(x.as_slice(), y.as_uninit(), $body);
            Ok(())
        }

        #[xla_ffi::handler(shape = "n -> n")]
        fn $host(x: Buffer<f32, 1>, mut y: Out<f32, 1>, pool: ThreadPool) -> Result<()> {
            let x = x.as_slice();
            pool.for_each_chunk(y.as_uninit(), GRAIN, |start, y| {
                each(&x[start..][..y.len()], y, $body);
            });
            Ok(())
        }

        #[xla_ffi::handler(shape = "n -> n")]
        fn $rayon(x: Buffer<f32, 1>, mut y: Out<f32, 1>, pool: ThreadPool) -> Result<()> {
            let (x, y) = (x.as_slice(), y.as_uninit());
            pool.rayon(|| {
                let chunks = x.par_chunks(GRAIN).zip(y.par_chunks_mut(GRAIN));
                chunks.for_each(|(x, y)| each(x, y, $body));
            })
        }
    };
}

on_threads!(scale: scale_one scale_host scale_rayon);
on_threads!(newton: newton_one newton_host newton_rayon);

xla_ffi::library! {
    copy_1, copy_8, rms_norm, softmax,
    scale_one, scale_host, scale_rayon, newton_one, newton_host, newton_rayon
}
