//! `shape()` wants a fixed rank.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(x: Buffer<f32>) -> Result<()> {
    let _ = x.shape();
    Ok(())
}

xla_ffi::library! { f }

fn main() {}
