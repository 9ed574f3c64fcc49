//! A function that decides the lengths of slices is `unsafe`, which a crate may forbid.
#![forbid(unsafe_code)]
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn double(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    y.write_with(|i| 2.0 * x[i]);
    Ok(())
}

fn sizes(_opaque: &[u8]) -> Result<xla_ffi::legacy::Shapes> {
    Err(Error::unimplemented("sizes"))
}

xla_ffi::legacy! { declared = cpu_unified(double): f32[1] -> f32[1] }
xla_ffi::legacy! { told = cpu_unified(double), shapes = unsafe sizes }

fn main() {}
