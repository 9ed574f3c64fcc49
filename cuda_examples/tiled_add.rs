//! The example of XLA's custom-call documents on a GPU: `A[i] = B[i % 128] + C[i]`, with the sizes
//! taken from the operands.

// [handler]
use xla_ffi::cuda::{Kernel, Module, Stream};
use xla_ffi::{DeviceBuffer, DeviceOut, Error, Launch, Result};

static MODULE: Module = Module::new(include_bytes!(concat!(
    env!("OUT_DIR"),
    "/tiled_add.image"
)));
static TILED_ADD: Kernel = MODULE.kernel("tiled_add");

/// Adds `b`, repeated as often as it takes, to `c`.
#[xla_ffi::handler(platforms = ["cuda"], shape = "m, n -> n")]
fn tiled_add(
    b: DeviceBuffer<f32, 1>,
    c: DeviceBuffer<f32, 1>,
    a: DeviceOut<f32, 1>,
    stream: Stream,
) -> Result<()> {
    if b.is_empty() && !c.is_empty() {
        return Err(Error::invalid_argument(
            "`b` is empty: there is nothing to repeat",
        ));
    }
    let arguments = (&b, b.len() as u64, &c, &a, c.len() as u64);
    // SAFETY: the kernel's parameters; it reads m and n elements and writes n.
    unsafe { TILED_ADD.launch(&stream, Launch::over(c.len(), 256), arguments) }
}

xla_ffi::library! { name = "cuda_tiled_add"; tiled_add }
// [handler]
