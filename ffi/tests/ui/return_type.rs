//! What a handler returns.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(x: Buffer<f32>) -> f32 {
    0.0
}

#[xla_ffi::handler]
fn g(x: Buffer<f32>) -> impl Copy {
    0.0
}

struct Mine;

#[xla_ffi::handler]
fn h(x: Buffer<f32>) -> std::result::Result<(), Mine> {
    Err(Mine)
}

#[xla_ffi::handler]
async fn later(x: Buffer<f32>) -> f32 {
    0.0
}

fn main() {}
