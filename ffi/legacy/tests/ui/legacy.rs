//! Invalid targets of the original custom calls.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn double(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    y.write_with(|i| 2.0 * x[i]);
    Ok(())
}

fn plain() {}

unsafe extern "C" fn bare(_out: *mut std::ffi::c_void, _ins: *mut *const std::ffi::c_void) {}

xla_ffi_legacy::legacy! { unknown = host(double): f32[1] -> f32[1] }
xla_ffi_legacy::legacy! { no_sizes = cpu(double) }
xla_ffi_legacy::legacy! { no_opaque = cpu_status(double), opaque = "x": f32[1] -> f32[1] }
xla_ffi_legacy::legacy! { told_twice = cpu_unified(double), shapes = unsafe sizes: f32[1] -> f32[1] }
xla_ffi_legacy::legacy! { no_unsafe = cpu_unified(double), shapes = sizes }
xla_ffi_legacy::legacy! { bare_with_sizes = unsafe cpu(bare): f32[1] -> f32[1] }
xla_ffi_legacy::legacy! { no_type = cpu(double): float[1] -> f32[1] }
xla_ffi_legacy::legacy! { no_option = cpu(double), name = "x": f32[1] -> f32[1] }
xla_ffi_legacy::legacy! { no_handler = cpu(plain): f32[1] -> f32[1] }
xla_ffi_legacy::legacy! { other_form = unsafe cpu_status(bare) }
xla_ffi_legacy::legacy! { which_form = cpu(double): (f32[1]) -> f32[1] }
xla_ffi_legacy::legacy! { no_tuples = cpu(double), tuples = "leaves": f32[1] -> f32[1] }
xla_ffi_legacy::legacy! { no_form = cpu(double), tuples = "nodes": (f32[1]) -> f32[1] }
xla_ffi_legacy::legacy! { two_results = cpu(double), tuples = "leaves": (f32[1]) -> f32[1], f32[1] }
xla_ffi_legacy::legacy! { no_pool = gpu(double), tuples = "roots": (f32[1]) -> f32[1] }
xla_ffi_legacy::legacy! { pool_on_host = cpu(double), tuples = "roots", pool = POOL: (f32[1]) -> f32[1] }
xla_ffi_legacy::legacy! { broken = cpu_unified(double), shapes = unsafe sizes, structure = "(_", tuples = "roots" }
xla_ffi_legacy::legacy! { told_twice_too = cpu(double), structure = "(_) -> _", tuples = "roots": (f32[1]) -> f32[1] }
xla_ffi_legacy::legacy! { bare_with_structure = unsafe cpu(bare), structure = "(_) -> _", tuples = "roots" }

xla_ffi_legacy::adapt! { other_adapter = unsafe cpu_status(bare) }
xla_ffi_legacy::adapt! { no_structure = unsafe cpu(bare), structure = "(_ -> _" }

xla_ffi::library! { double, legacy plain }

fn main() {}
