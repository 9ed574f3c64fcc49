//! Options that there are not.
use xla_ffi::prelude::*;

#[xla_ffi::handler(shapes = "n -> n")]
fn f(x: Buffer<f32>, y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(floor = "r11")]
fn g(x: Buffer<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(platforms = "cpu")]
fn h(x: Buffer<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler]
fn i(#[attr(defualt = 1)] n: i64) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler]
fn j(#[attr(flatten, narrow)] n: i64) -> Result<()> {
    Ok(())
}

fn main() {}
