//! What may be absent comes last.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(x: Option<Buffer<f32>>, y: Buffer<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler]
fn g(xs: RemainingArgs, ys: RemainingArgs) -> Result<()> {
    Ok(())
}

xla_ffi::library! { f, g }

fn main() {}
