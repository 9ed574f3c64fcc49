//! y = factor x, on NVIDIA GPUs.

use xla_ffi::cuda::{Kernel, Module, Stream};
use xla_ffi::{DeviceBuffer, DeviceOut, Launch, Result};

static MODULE: Module = Module::new(include_bytes!(concat!(env!("OUT_DIR"), "/kernels.image")));
static SCALE: Kernel = MODULE.kernel("scale_kernel");

/// y = factor x, element by element.
#[xla_ffi::handler(platforms = ["cuda"], shape = "... -> ...")]
fn scale(x: DeviceBuffer<f32>, y: DeviceOut<f32>, factor: f32, stream: Stream) -> Result<()> {
    let arguments = (&x, &y, x.len() as u64, factor);
    // SAFETY: The arguments are the kernel's parameters, and the kernel accesses `len` elements of each array.
    unsafe { SCALE.launch(&stream, Launch::over(x.len(), 256), arguments) }
}

xla_ffi::library! { scale }
