//! The body of an async handler moves between threads.
use std::rc::Rc;
use xla_ffi::prelude::*;

#[xla_ffi::handler]
async fn f(mut y: Out<f32>) -> Result<()> {
    let number = Rc::new(1.0);
    std::future::ready(()).await;
    y.fill(*number);
    Ok(())
}

fn main() {}
