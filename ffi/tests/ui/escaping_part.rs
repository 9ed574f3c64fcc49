//! What a part lends stays within it, and a part that is complete is gone.
use xla_ffi::{Future, Later, prelude::*};

#[xla_ffi::handler]
fn f(x: Buffer<f32, 1>, y: Out<f32, 1>, later: Later) -> Result<Future> {
    let (promise, future) = later.promise((x, y));
    for mut part in promise.count_down(2)? {
        let slice = part.with(|(_, mut y)| y.fill(0.0));
        part.complete(Ok(()));
        slice[0] = 1.0;
    }
    Ok(future)
}

#[xla_ffi::handler]
fn g(y: Out<f32, 1>, later: Later) -> Result<Future> {
    let (promise, future) = later.promise(y);
    for part in promise.count_down(2)? {
        part.complete(Ok(()));
        part.complete_with(|_| Ok(()));
    }
    Ok(future)
}

fn main() {}
