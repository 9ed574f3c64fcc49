//! Targets of the original custom calls whose every call their handler refuses.
use xla_ffi::legacy::Shapes;
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn scaled(x: Buffer<f32, 1>, mut y: Out<f32, 1>, eps: f32) -> Result<()> {
    y.write_with(|i| eps * x[i]);
    Ok(())
}

#[xla_ffi::handler]
fn sums(first: Option<Buffer<f32>>, rest: RemainingArgs, mut y: Out<f32>, #[attr(default = 1)] k: i64) -> Result<()> {
    let _ = (first, rest, k);
    y.fill(0.0);
    Ok(())
}

fn sizes(_: &[u8]) -> Result<Shapes> {
    Ok(Shapes::default())
}

xla_ffi::legacy! { needs_an_attribute = cpu(scaled): f32[1] -> f32[1] }
xla_ffi::legacy! { told_by_bytes = cpu_unified(scaled), shapes = unsafe sizes }
xla_ffi::legacy! { no_such_attribute = cpu_unified(sums), opaque = "nothere": f32[1] -> f32[1] }
xla_ffi::legacy! { other_counts = cpu_unified(scaled), opaque = "eps": f32[1], f32[1] -> }
xla_ffi::legacy! { other_operands = cpu_unified(scaled), opaque = "eps": f64[1] -> f32[2, 3] }
xla_ffi::legacy! { r#match = cpu(sums): f64[1] -> f32[1] }

// What the handler takes.
xla_ffi::legacy! {
    fits = cpu_unified(scaled), opaque = "eps": f32[1] -> f32[1];
    of_none = cpu(sums): -> f32[];
    of_many = gpu(sums), opaque = "k": f32[1], f64[2, 2], bool[] -> f32[3]
}

fn main() {}
