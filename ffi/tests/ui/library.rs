//! Libraries.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn exp(x: Buffer<f32>, y: Out<f32>) -> Result<()> {
    Ok(())
}

xla_ffi::library! {}
xla_ffi::library! { name = "two words"; exp }
xla_ffi::library! { title = "x"; exp }
xla_ffi::library! { exp }

fn main() {}
