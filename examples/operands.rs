//! Operands: of one type and rank, updated in place, of several element types, and with sub-byte elements.
#![forbid(unsafe_code)]

use std::ops::{Add, Mul};

use xla_ffi::{DataType, Element, OneOf, OneOfOut, Packed, element::S4, matching, prelude::*};

// The example of XLA's custom-call documents, `A[i] = B[i % 128] + C[i]`: operands of one type and rank, with their
// sizes from the call.

/// Adds `b`, repeated to the length of `c`, to `c`.
#[xla_ffi::handler(shape = "m, n -> n")]
fn tiled_add(b: Buffer<f32, 1>, c: Buffer<f32, 1>, mut a: Out<f32, 1>) -> Result<()> {
    if b.is_empty() && !c.is_empty() {
        return Err(Error::invalid_argument(
            "`b` is empty: there is nothing to repeat",
        ));
    }
    a.write_iter(c.iter().zip(b.iter().cycle()).map(|(c, b)| b + c))
}

// The operand `y` is both argument and result, and is updated in place, without a copy.

/// y = a x + y, in place. A call in which `y` is not aliased with the result is refused.
#[xla_ffi::handler(shape = "n, n -> n")]
fn axpy(x: Buffer<f32, 1>, mut y: InOut<f32, 1>, a: f32) -> Result<()> {
    for (y, x) in y.iter_mut().zip(&*x) {
        *y += a * x;
    }
    Ok(())
}

// Two handlers that accept several element types: a product with a shape contract, and its
// gradient.

/// z[b] = x[b] y[b], batch by batch.
#[xla_ffi::handler(shape = "b n k, b k m -> b n m", vjp = "matmul_backward")]
fn matmul(
    x: OneOf<(f32, f64), 3>,
    y: OneOf<(f32, f64), 3>,
    z: OneOfOut<(f32, f64), 3>,
) -> Result<()> {
    matching::same_dtype("y", y.dtype(), "x", x.dtype())?;
    match x.dtype() {
        DataType::F32 => product(x.typed()?, y.typed()?, z.typed::<f32>()?),
        _ => product(x.typed()?, y.typed()?, z.typed::<f64>()?),
    }
}

fn product<T>(x: Buffer<T, 3>, y: Buffer<T, 3>, mut z: Out<T, 3>) -> Result<()>
where
    T: Element + Default + Add<Output = T> + Mul<Output = T>,
{
    let [_, n, m] = z.shape();
    let [_, k, _] = y.shape();
    z.write_with(|i| {
        let (b, row, column) = (i / (n * m), i / m, i % m);
        let x = &x[row * k..][..k];
        // If `y` has no columns, the result has no elements, so the step is never 0.
        let y = y[b * k * m..].iter().skip(column).step_by(m);
        x.iter()
            .zip(y)
            .fold(T::default(), |sum, (x, y)| sum + *x * *y)
    });
    Ok(())
}

/// dx[b] = dz[b] y[b]ᵀ and dy[b] = x[b]ᵀ dz[b], for the gradient dz of z.
#[xla_ffi::handler(shape = "b n k, b k m, b n m -> b n k, b k m")]
fn matmul_backward(
    x: OneOf<(f32, f64), 3>,
    y: OneOf<(f32, f64), 3>,
    dz: OneOf<(f32, f64), 3>,
    dx: OneOfOut<(f32, f64), 3>,
    dy: OneOfOut<(f32, f64), 3>,
) -> Result<()> {
    matching::same_dtype("y", y.dtype(), "x", x.dtype())?;
    matching::same_dtype("dz", dz.dtype(), "x", x.dtype())?;
    match x.dtype() {
        DataType::F32 => products::<f32>(
            x.typed()?,
            y.typed()?,
            dz.typed()?,
            dx.typed()?,
            dy.typed()?,
        ),
        _ => products::<f64>(
            x.typed()?,
            y.typed()?,
            dz.typed()?,
            dx.typed()?,
            dy.typed()?,
        ),
    }
}

fn products<T>(
    x: Buffer<T, 3>,
    y: Buffer<T, 3>,
    dz: Buffer<T, 3>,
    mut dx: Out<T, 3>,
    mut dy: Out<T, 3>,
) -> Result<()>
where
    T: Element + Default + Add<Output = T> + Mul<Output = T>,
{
    let [_, n, k] = x.shape();
    let [_, _, m] = y.shape();
    let dot = |pairs: &mut dyn Iterator<Item = (T, T)>| {
        pairs.fold(T::default(), |sum, (a, b)| sum + a * b)
    };
    dx.write_with(|i| {
        let (row, batch, column) = (i / k, i / (n * k), i % k);
        dot(&mut (0..m).map(|j| (dz[row * m + j], y[(batch * k + column) * m + j])))
    });
    dy.write_with(|i| {
        let (row, batch, column) = (i / m % k, i / (k * m), i % m);
        dot(&mut (0..n).map(|j| {
            (
                x[(batch * n + j) * k + row],
                dz[(batch * n + j) * m + column],
            )
        }))
    });
    Ok(())
}

// Elements of 4 bits: a byte has two integers, which are unpacked when they are read.

/// w[i, j] = scale[i] q[i, j]: the weights of a quantized layer, one scale per row.
#[xla_ffi::handler(shape = "n m, n -> n m")]
fn dequantize(q: Packed<S4, 2>, scale: Buffer<f32, 1>, mut w: Out<f32, 2>) -> Result<()> {
    let columns = w.shape()[1].max(1);
    let values = q.iter().enumerate();
    w.write_iter(values.map(|(i, q)| scale[i / columns] * f32::from(q)))
}

xla_ffi::library! { tiled_add, axpy, matmul, matmul_backward, dequantize }
