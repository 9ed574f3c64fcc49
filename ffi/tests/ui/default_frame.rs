//! A default does not see the call.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(#[attr(default = __frame.arg_count() as i64)] n: i64) -> Result<()> {
    Ok(())
}

fn main() {}
