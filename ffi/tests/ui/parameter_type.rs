//! A type that is no operand, no attribute and no part of the context.
use xla_ffi::prelude::*;

struct Mine;

#[xla_ffi::handler]
fn f(x: Buffer<f32>, mine: Mine) -> Result<()> {
    Ok(())
}

fn main() {}
