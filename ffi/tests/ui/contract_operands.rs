//! Shape contracts that do not fit the parameters.
use xla_ffi::prelude::*;

/// A macro of the user's own is not what judges contracts.
macro_rules! assert {
    ($($anything:tt)*) => {};
}

#[xla_ffi::handler(shape = "n, n -> n")]
fn count(x: Buffer<f32>, y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n m -> n")]
fn rank(x: Buffer<f32, 1>, y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n -> n")]
fn star(xs: RemainingArgs, y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n -> n?")]
fn question(x: Buffer<f32>, y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "token -> ()")]
fn token(x: Buffer<f32>, y: TokenOut) -> Result<()> {
    Ok(())
}

fn main() {}
