//! What a promise lends stays within it.
use xla_ffi::{Future, Later, prelude::*};

#[xla_ffi::handler]
fn f(x: Buffer<f32>, later: Later) -> Result<Future> {
    let (mut promise, future) = later.promise(x);
    let slice = promise.with(|x| x.as_slice());
    promise.complete(Ok(()));
    println!("{}", slice.len());
    Ok(future)
}

#[xla_ffi::handler]
fn g(y: Out<f32>, later: Later) -> Result<Future> {
    let (promise, future) = later.promise(y);
    let mut kept = None;
    promise.complete_with(|mut y| {
        kept = Some(y.as_uninit());
        Ok(())
    });
    Ok(future)
}

fn main() {}
