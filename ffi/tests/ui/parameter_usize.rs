//! Attributes have a fixed size.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(n: usize) -> Result<()> {
    Ok(())
}

fn main() {}
