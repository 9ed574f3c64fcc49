//! A handler has no bounds.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(x: Buffer<f32>) -> Result<()>
where
    f32: Copy,
{
    Ok(())
}

fn main() {}
