//! A result is one value.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(y: AnyOut) -> Result<()> {
    let a = y.typed::<f32, 1>()?;
    let b = y.typed::<f32, 1>()?;
    drop((a, b));
    Ok(())
}

#[xla_ffi::handler]
fn g(mut y: Out<f32>) -> Result<()> {
    let a = y.as_uninit();
    let b = y.as_uninit();
    a[0].write(1.0);
    b[0].write(1.0);
    Ok(())
}

#[xla_ffi::handler]
fn h(y: Out<f32>) -> Result<()> {
    let read: f32 = y[0];
    Ok(())
}

fn main() {}
