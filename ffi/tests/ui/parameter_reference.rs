//! Operands are taken by value.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(x: &Buffer<f32>) -> Result<()> {
    Ok(())
}

fn main() {}
