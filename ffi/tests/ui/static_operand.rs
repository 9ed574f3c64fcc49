//! No operand lives for ever, in no handler.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(x: Buffer<'static, f32>) -> Result<()> {
    std::thread::spawn(move || x.len());
    Ok(())
}

#[xla_ffi::handler]
async fn g(x: Buffer<'static, f32>, name: &'static str) -> Result<()> {
    std::thread::spawn(move || (x.len(), name));
    Ok(())
}

#[derive(xla_ffi::Attribute)]
struct Options {
    name: &'static str,
}

fn main() {}
