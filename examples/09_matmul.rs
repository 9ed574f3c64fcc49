//! One handler for several element types, its shapes told by a contract.
#![forbid(unsafe_code)]

use std::ops::{Add, Mul};

use xla_ffi::{DataType, Element, OneOf, OneOfOut, matching, prelude::*};

/// z[b] = x[b] y[b], batch by batch.
#[xla_ffi::handler(shape = "b n k, b k m -> b n m")]
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

xla_ffi::library! { matmul }
