//! Scratch memory: a sum in two kernels, the first of which leaves its partial sums in memory that XLA
//! lends to the call.

use xla_ffi::cuda::{Kernel, Module, Stream};
use xla_ffi::{DeviceBuffer, DeviceOut, Launch, Result, Scratch};

static MODULE: Module = Module::new(include_bytes!(concat!(env!("OUT_DIR"), "/sum.image")));
static PARTIAL_SUMS: Kernel = MODULE.kernel("partial_sums");
static TOTAL: Kernel = MODULE.kernel("total");

/// y = the sum of all elements of x.
#[xla_ffi::handler(platforms = ["cuda"])]
fn sum(x: DeviceBuffer<f32>, y: DeviceOut<f32, 0>, scratch: Scratch, stream: Stream) -> Result<()> {
    if x.is_empty() {
        return stream.fill_bytes(&y, 0);
    }
    let blocks = x.len().div_ceil(256).min(1024);
    let partial = scratch.array::<f32>(blocks)?;
    let first = (&x, x.len() as u64, &partial);
    // SAFETY: the kernel's parameters; it writes one number a block.
    unsafe { PARTIAL_SUMS.launch(&stream, Launch::blocks(blocks as u32, 256), first) }?;
    let second = (&partial, blocks as u32, &y);
    // SAFETY: the kernel's parameters.
    unsafe { TOTAL.launch(&stream, Launch::blocks(1, 256), second) }
}

xla_ffi::library! { name = "cuda_sum"; sum }
