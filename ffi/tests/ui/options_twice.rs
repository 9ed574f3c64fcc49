//! Options that are given twice, or that say nothing.
use xla_ffi::{Attribute, Buffer};

#[xla_ffi::handler(name = "x", name = "y")]
fn a(_x: Buffer<f32>) {}

#[xla_ffi::handler(name = "")]
fn b(_x: Buffer<f32>) {}

#[xla_ffi::handler(name = "b\0c")]
fn c(_x: Buffer<f32>) {}

#[xla_ffi::handler(platforms = [])]
fn d(_x: Buffer<f32>) {}

#[xla_ffi::handler]
fn e(#[attr(name = "")] _x: i64) {}

#[xla_ffi::handler]
fn f(#[attr(default = 1)] #[attr(default = 2)] _x: i64) {}

#[xla_ffi::handler]
fn g(#[cfg(unix)] _x: i64, #[cfg(not(unix))] _x: i32) {}

#[derive(Attribute)]
#[attr(narrow)]
struct H {
    x: i64,
}

#[derive(Attribute)]
#[attr(strings)]
enum I {
    #[attr(name = "same")]
    A,
    Same,
}

#[derive(Attribute)]
#[attr(strings)]
enum J {
    #[attr(default = 1)]
    A,
}

#[derive(Attribute)]
enum K {
    #[attr(name = "a")]
    A,
}

#[derive(Attribute)]
enum L {
    #[attr(narrow)]
    A(f32),
    B(i64),
}

fn main() {}
