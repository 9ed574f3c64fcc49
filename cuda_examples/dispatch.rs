//! A handler that does nothing with its operands: what its calls cost is the dispatch. `dispatch.cc` is
//! the same for both C++ headers.
#![forbid(unsafe_code)]

use xla_ffi::{DeviceBuffer, DeviceOut, Result, Stream};

/// Takes what a small handler takes.
#[xla_ffi::handler(platforms = ["cuda"])]
fn dispatch(
    x: DeviceBuffer<f32, 1>,
    y: DeviceOut<f32, 1>,
    scale: f32,
    steps: i64,
    stream: Stream,
) -> Result<()> {
    std::hint::black_box((x, y, scale, steps, stream));
    Ok(())
}

xla_ffi::library! { name = "cuda_dispatch"; dispatch }
