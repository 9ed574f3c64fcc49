//! Options that speak of gradients, batches and layouts, and say what cannot be.
use xla_ffi::prelude::*;

#[xla_ffi::handler(vjp = "b", jvp = "j")]
fn two_ways(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    y.copy_from(&x)?;
    Ok(())
}

#[xla_ffi::handler(vjp = "b", transpose = "t")]
fn transpose_of_nothing(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    y.copy_from(&x)?;
    Ok(())
}

#[xla_ffi::handler(batch = "sometimes")]
fn unknown_batching(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    y.copy_from(&x)?;
    Ok(())
}

#[xla_ffi::handler(batch = "none", batch_with = "b")]
fn batched_twice(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    y.copy_from(&x)?;
    Ok(())
}

#[xla_ffi::handler]
fn unknown_layout(#[operand(layout = "diagonal")] x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    y.copy_from(&x)?;
    Ok(())
}

#[xla_ffi::handler]
fn layout_of_an_attribute(#[operand(layout = "column")] n: i64, mut y: Out<f32>) -> Result<()> {
    y.fill(n as f32);
    Ok(())
}

fn main() {}
