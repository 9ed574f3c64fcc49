//! Shape contracts that do not parse.
use xla_ffi::prelude::*;

#[xla_ffi::handler(shape = "n m")]
fn no_arrow(x: Buffer<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n -> m -> k")]
fn two_arrows(x: Buffer<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n+1 -> n")]
fn arithmetic(x: Buffer<f32>, y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "... n ... -> n")]
fn two_ellipses(x: Buffer<f32>, y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n, -> n")]
fn empty_entry(x: Buffer<f32>, y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n*, n -> n")]
fn early_star(x: Buffer<f32>, y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "99999999999 -> n")]
fn large(x: Buffer<f32>, y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n?* -> n")]
fn both(x: RemainingArgs, y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n -> n*2")]
fn factor_behind(x: Buffer<f32>, y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n -> n/0")]
fn by_zero(x: Buffer<f32>, y: Out<f32>) -> Result<()> {
    Ok(())
}

fn main() {}
