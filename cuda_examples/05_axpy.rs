//! A handler that XLA may capture into a command buffer: every call launches the same kernel, nothing
//! is allocated, nothing waits.

use std::sync::atomic::{AtomicU64, Ordering};
use xla_ffi::cuda::{Kernel, Module, Stream};
use xla_ffi::{DeviceBuffer, DeviceOut, Launch, Result};

static MODULE: Module = Module::new(include_bytes!(concat!(env!("OUT_DIR"), "/05_axpy.image")));
static AXPY: Kernel = MODULE.kernel("axpy");

/// Calls of the execute stage, and those of them that were captured: for the tests.
static CALLS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

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
        CALLS[0].fetch_add(1, Ordering::Relaxed);
        if stream.is_capturing()? {
            CALLS[1].fetch_add(1, Ordering::Relaxed);
        }
        let arguments = (a, &x, &y, &z, x.len() as u64);
        // SAFETY: the kernel's parameters; it touches `len` elements of each.
        unsafe { AXPY.launch(&stream, Launch::over(x.len(), 256), arguments) }
    }
}

/// How often the execute stage ran; with `captured`, how often it was captured.
#[unsafe(no_mangle)]
pub extern "C" fn axpy_calls(captured: bool) -> u64 {
    CALLS[usize::from(captured)].load(Ordering::Relaxed)
}

xla_ffi::library! { name = "cuda_axpy"; Axpy }
