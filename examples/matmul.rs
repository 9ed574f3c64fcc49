//! One handler for several element types, its shapes told by a contract; another is its gradient.
#![forbid(unsafe_code)]

use std::ops::{Add, Mul};

use xla_ffi::{DataType, Element, OneOf, OneOfOut, matching, prelude::*};

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
        // Without columns to sum over there is nothing to begin at.
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

xla_ffi::library! { matmul, matmul_backward }
