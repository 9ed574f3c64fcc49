//! A handler is one function.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f<T: xla_ffi::Element>(x: Buffer<T>) -> Result<()> {
    Ok(())
}

fn main() {}
