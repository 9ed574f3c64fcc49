//! Only a promise keeps operands.
use xla_ffi::{Detach, prelude::*};

#[xla_ffi::handler]
fn f(y: Out<f32>) -> Result<()> {
    let kept = y.detach();
    std::thread::spawn(move || drop(kept));
    Ok(())
}

fn main() {}
