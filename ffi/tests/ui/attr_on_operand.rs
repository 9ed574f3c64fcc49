//! `#[attr]` on what is no attribute.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(#[attr(narrow)] x: Buffer<f32>) -> Result<()> {
    Ok(())
}

fn main() {}
