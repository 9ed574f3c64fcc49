//! Operands end with the call.
use std::sync::Mutex;
use xla_ffi::prelude::*;

static KEPT: Mutex<Vec<&'static [f32]>> = Mutex::new(Vec::new());

#[xla_ffi::handler]
fn f(x: Buffer<f32>) -> Result<()> {
    KEPT.lock().unwrap().push(x.as_slice());
    Ok(())
}

#[xla_ffi::handler]
fn g(x: Buffer<f32>, pool: ThreadPool) -> Result<()> {
    pool.spawn(move || drop(x.len()))
}

#[xla_ffi::handler]
async fn h(x: Buffer<f32>) -> Result<()> {
    std::thread::spawn(move || x.len());
    Ok(())
}

fn main() {}
