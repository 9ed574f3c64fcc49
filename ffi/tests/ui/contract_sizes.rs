//! Sizes of a shape contract that nothing tells.
use xla_ffi::prelude::*;

#[xla_ffi::handler(shape = "n -> m")]
fn nothing(_x: Buffer<f32>, _y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n, m? -> m+1")]
fn perhaps(_x: Buffer<f32>, _w: Option<Buffer<f32>>, _y: Out<f32>) -> Result<()> {
    Ok(())
}

type Ratio = f64;

#[xla_ffi::handler(shape = "n -> k")]
fn no_integer(_x: Buffer<f32>, _y: Out<f32>, _k: Ratio) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n -> k")]
fn may_be_absent(_x: Buffer<f32>, _y: Out<f32>, _k: Option<i64>) -> Result<()> {
    Ok(())
}

const ONE: i64 = 1;

#[xla_ffi::handler(shape = "n -> k")]
fn no_literal(_x: Buffer<f32>, _y: Out<f32>, #[attr(default = ONE)] _k: i64) -> Result<()> {
    Ok(())
}

fn main() {}
