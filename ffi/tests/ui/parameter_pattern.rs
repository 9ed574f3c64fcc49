//! A parameter has a name.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f((x, y): (Buffer<f32>, Out<f32>)) -> Result<()> {
    Ok(())
}

fn main() {}
