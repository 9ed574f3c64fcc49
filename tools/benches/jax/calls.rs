//! The Rust handlers for `cargo xtask bench --jax`: handlers that only copy, two functions over rows, and two loops.
//!
//! The functions over rows use the host's thread pool; the loops use this pool and the pool of rayon. `calls.cc` and
//! `calls.c` have the same copying handlers.

use rayon::prelude::*;
use std::mem::MaybeUninit;
use xla_ffi::prelude::*;

/// Defines a handler that copies each argument to its result.
macro_rules! copies {
    ($name:ident: $($x:ident $y:ident),*) => {
        #[allow(clippy::too_many_arguments, reason = "8 arguments and 8 results")]
        #[xla_ffi::handler]
        fn $name($($x: Buffer<f32, 1>,)* $(mut $y: Out<f32, 1>),*) -> Result<()> {
            $($y.copy_from(&$x)?;)*
            Ok(())
        }
    };
}

copies!(copy_1: x y);
copies!(copy_8: a i, b j, c k, d l, e m, f n, g o, h p);

/// Combines the elements of a row with eight accumulators. Compilers cannot vectorize a loop with one accumulator,
/// because the order of operations would change.
fn reduce(row: &[f32], start: f32, of: impl Fn(f32) -> f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [start; 8];
    let chunks = row.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = join(*lane, of(*x));
        }
    }
    let lanes = lanes.into_iter().reduce(&join).unwrap_or(start);
    rest.iter().fold(lanes, |lanes, x| join(lanes, of(*x)))
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
        let squares = reduce(x, 0.0, |x| x * x, |sum, x| sum + x);
        let scale = 1.0 / (squares / n as f32 + 1e-5).sqrt();
        for (x, y) in x.iter().zip(y) {
            y.write(x * scale);
        }
    });
    Ok(())
}

/// Returns e^x for x up to 0, with a relative error below 3e-7.
///
/// Unlike `f32::exp`, compilers can vectorize this function. For x = n ln 2 + r, the bits of n form 2^n, and a
/// polynomial approximates e^r.
fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding this number rounds to an integer
    let x = if x < -87.0 { -87.0 } else { x };
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let rest = x - n * 0.693_359_4 + n * 2.121_944_4e-4; // x - n ln 2, with ln 2 in two parts
    let mut sum = 1.0 / 720.0;
    for term in [120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        sum = sum * rest + 1.0 / term;
    }
    sum * f32::from_bits(rounded.to_bits().wrapping_add(127) << 23)
}

#[xla_ffi::handler(shape = "... n -> ... n")]
fn softmax(x: Buffer<f32>, mut y: Out<f32>, pool: ThreadPool) -> Result<()> {
    let n = length(x.dims());
    let x = x.as_slice();
    pool.for_each_chunk(y.as_uninit(), n, |start, y| {
        let x = &x[start..][..y.len()];
        let max = reduce(
            x,
            f32::NEG_INFINITY,
            |x| x,
            |max, x| if x > max { x } else { max },
        );
        each(x, y, |x| exp(x - max));
        // SAFETY: the loop above initializes every element.
        let y = unsafe { &mut *(std::ptr::from_mut(y) as *mut [f32]) };
        let scale = 1.0 / reduce(y, 0.0, |y| y, |sum, y| sum + y);
        y.iter_mut().for_each(|y| *y *= scale);
    });
    Ok(())
}

/// The number of elements per task of the loops.
const GRAIN: usize = 16_384;

/// A cheap loop body, limited by memory bandwidth.
fn scale(x: f32) -> f32 {
    2.0 * x + 1.0
}

/// An expensive loop body: steps of Newton's method for the square root, with one division per step.
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

/// Defines handlers that run a loop body on the calling thread, on the host's thread pool, and on the pool of rayon.
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
