//! Hosts promise nothing.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
unsafe fn f(x: Buffer<f32>) -> Result<()> {
    Ok(())
}

fn main() {}
