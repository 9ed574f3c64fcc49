//! Libraries.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn exp(_x: Buffer<f32>, _y: Out<f32>) -> Result<()> {
    Ok(())
}

struct Solver;

#[xla_ffi::stateful(name = "solver")]
impl Solver {
    fn execute() {}
}

#[xla_ffi::handler(nme = "x")]
fn broken() {}

#[xla_ffi::handler]
fn scale() {}

#[xla_ffi::handler(name = "scale")]
fn scale_again() {}

xla_ffi::library! {}
xla_ffi::library! { name = "two words"; exp }
xla_ffi::library! { title = "x"; exp }
xla_ffi::library! { #[inline] exp }
xla_ffi::library! { exp, solver, broken, scale, absent, #[cfg(any())] gone }
xla_ffi::library! { name = "twice"; scale, #[cfg(any())] gone, scale_again }

fn main() {}
