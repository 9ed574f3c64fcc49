//! A call completes once.
use xla_ffi::{Future, Later, prelude::*};

#[xla_ffi::handler]
fn f(a: Later, b: Later) -> Result<Future> {
    let _ = a.promise(());
    Ok(b.promise(()).1)
}

xla_ffi::library! { f }

fn main() {}
