//! A parameter's type can be named.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(x: impl Fn()) -> Result<()> {
    Ok(())
}

fn main() {}
