//! A call has one promise, and completing consumes it.
use xla_ffi::{Future, Later, prelude::*};

#[xla_ffi::handler]
fn twice(later: Later) -> Result<Future> {
    let (promise, future) = later.promise(());
    promise.complete(Ok(()));
    promise.complete(Ok(()));
    Ok(future)
}

#[xla_ffi::handler]
fn again(later: Later) -> Result<Future> {
    let (_, _) = later.promise(());
    let (_, future) = later.promise(());
    Ok(future)
}

#[xla_ffi::handler]
fn kept(y: Out<f32>, later: Later) -> Result<Future> {
    let (_promise, future) = later.promise(y);
    let mut y = y;
    y.fill(0.0);
    Ok(future)
}

fn main() {}
