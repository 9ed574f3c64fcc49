//! A handler that XLA may capture into a command buffer: every call launches the same kernel, nothing
//! is allocated, nothing waits.

use xla_ffi::cuda::{Kernel, Module, Stream};
use xla_ffi::{DeviceBuffer, DeviceOut, Launch, Result};

static MODULE: Module = Module::new(include_bytes!(concat!(env!("OUT_DIR"), "/axpy.image")));
static AXPY: Kernel = MODULE.kernel("axpy");

/// z = a x + y; `z` may be `y`.
struct Axpy;

#[xla_ffi::stateful(name = "axpy", platforms = ["cuda"], command_buffer_compatible, shape = "..., ... -> ...")]
impl Axpy {
    /// Modules are loaded in front of the capture.
    fn initialize(stream: Option<Stream>) -> Result<()> {
        if let Some(stream) = stream {
            AXPY.load(stream.context()?)?;
        }
        Ok(())
    }

    fn execute(
        x: DeviceBuffer<f32>,
        y: DeviceBuffer<f32>,
        z: DeviceOut<f32>,
        a: f32,
        stream: Stream,
    ) -> Result<()> {
        let arguments = (a, &x, &y, &z, x.len() as u64);
        // SAFETY: the kernel's parameters; it touches `len` elements of each.
        unsafe { AXPY.launch(&stream, Launch::over(x.len(), 256), arguments) }
    }
}

xla_ffi::library! { name = "cuda_axpy"; Axpy }
