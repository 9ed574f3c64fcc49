//! A default of another type.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(#[attr(default = "one")] n: i64) -> Result<()> {
    Ok(())
}

fn main() {}
