//! `#[derive(Bind)]` wants to know from what, and that is read only.
use xla_ffi::{Bind, prelude::*};

#[derive(Bind)]
struct Nothing;

#[derive(Bind)]
#[bind(from = Buffer<'f, f32>)]
struct NoTryFrom<'f>(&'f [f32]);

#[derive(Bind)]
#[bind(from = Out<'f, f32>)]
struct Written<'f>(Out<'f, f32>);

impl<'f> From<Out<'f, f32>> for Written<'f> {
    fn from(out: Out<'f, f32>) -> Self {
        Self(out)
    }
}

#[xla_ffi::handler]
fn f(y: Written) -> Result<()> {
    Ok(())
}

fn main() {}
