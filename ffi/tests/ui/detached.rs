//! Only a promise keeps operands.
use xla_ffi::{Detach, Frame, prelude::*};

fn call() -> &'static Frame<'static> {
    loop {}
}

#[xla_ffi::handler]
fn f(y: Out<f32>) -> Result<()> {
    let kept = y.detach(call());
    std::thread::spawn(move || drop(kept));
    Ok(())
}

fn main() {}
