//! Elements of buffers.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(x: Buffer<bool>, y: Out<usize>) -> Result<()> {
    Ok(())
}

fn main() {}
