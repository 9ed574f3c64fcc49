//! Sizes of a shape contract that nothing tells, or two.
use xla_ffi::{Attribute, prelude::*};

#[xla_ffi::handler(shape = "n -> m")]
fn nothing(_x: Buffer<f32>, _y: Out<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n, m? -> m+1")]
fn perhaps(_x: Buffer<f32>, _w: Option<Buffer<f32>>, _y: Out<f32>) -> Result<()> {
    Ok(())
}

type Ratio = f64;

#[xla_ffi::handler(shape = "n -> k")]
fn no_integer(_x: Buffer<f32>, _y: Out<f32>, _k: Ratio) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n -> k")]
fn may_be_absent(_x: Buffer<f32>, _y: Out<f32>, _k: Option<i64>) -> Result<()> {
    Ok(())
}

const ONE: i64 = 1;

#[xla_ffi::handler(shape = "n -> k")]
fn no_literal(_x: Buffer<f32>, _y: Out<f32>, #[attr(default = ONE)] _k: i64) -> Result<()> {
    Ok(())
}

#[derive(Attribute)]
struct Window {
    #[attr(name = "k")]
    _width: i64,
}

#[xla_ffi::handler(shape = "n -> k")]
fn two(
    _x: Buffer<f32>,
    _y: Out<f32>,
    _k: i64,
    #[attr(flatten)] _window: Window,
) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(shape = "n -> k")]
fn in_a_dictionary(_x: Buffer<f32>, _y: Out<f32>, _window: Window) -> Result<()> {
    Ok(())
}

struct Stages;

#[xla_ffi::stateful(name = "stages", shape = "n -> k")]
impl Stages {
    fn instantiate(_k: i32) -> Result<Self> {
        Ok(Self)
    }

    fn execute(&self, _x: Buffer<f32>, _y: Out<f32>, _k: i64) -> Result<()> {
        Ok(())
    }
}

fn main() {}
