//! Names are unique.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(x: f32, #[attr(name = "x")] y: f32) -> Result<()> {
    Ok(())
}

#[derive(xla_ffi::Attribute)]
struct S {
    a: i64,
    #[attr(name = "a")]
    b: i64,
}

fn main() {}
