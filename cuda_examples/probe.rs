//! Handlers for the GPU tests and benchmarks: a copy that counts its calls, a handler with a wrong declaration, and a
//! handler that does nothing. The copy is the baseline for benchmarks of kernels.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use xla_ffi::cuda::{Kernel, Module, Stream};
use xla_ffi::{DeviceBuffer, DeviceOut, Launch, Result};

static CALLS: AtomicU64 = AtomicU64::new(0);
static CAPTURED: AtomicU64 = AtomicU64::new(0);
static STREAMS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Computes y = x with a copy in device memory, and counts the calls.
#[xla_ffi::handler(platforms = ["cuda"], command_buffer_compatible, shape = "... -> ...")]
fn probe(x: DeviceBuffer<f32>, y: DeviceOut<f32>, stream: Stream) -> Result<()> {
    CALLS.fetch_add(1, Ordering::Relaxed);
    if stream.is_capturing()? {
        CAPTURED.fetch_add(1, Ordering::Relaxed);
    }
    STREAMS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(stream.as_raw() as usize);
    stream.copy(&x, &y)
}

/// Returns the number of calls of the handler `probe`.
#[unsafe(no_mangle)]
pub extern "C" fn probe_calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

/// Returns the number of calls of `probe` that were captured into a command buffer.
#[unsafe(no_mangle)]
pub extern "C" fn probe_captured() -> u64 {
    CAPTURED.load(Ordering::Relaxed)
}

/// Returns the number of different streams on which `probe` was called.
#[unsafe(no_mangle)]
pub extern "C" fn probe_streams() -> u64 {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
}

// The kernel `axpy` of `kernels.cu`, which `fickle` launches with varying grid sizes.
static MODULE: Module = Module::new(include_bytes!(concat!(env!("OUT_DIR"), "/kernels.image")));
static AXPY: Kernel = MODULE.kernel("axpy");

/// Computes y = 2 x, in a varying number of blocks or, if `idle`, not at all. It wrongly declares that all calls do the
/// same work, so that a command buffer may replay it.
#[xla_ffi::handler(platforms = ["cuda"], command_buffer_compatible, shape = "... -> ...")]
fn fickle(x: DeviceBuffer<f32>, y: DeviceOut<f32>, idle: bool, stream: Stream) -> Result<()> {
    let arguments = (1.0_f32, &x, &x, &y, x.len() as u64);
    if idle {
        let _by_another_stream_perhaps = y.as_device_mut_ptr();
        return Ok(());
    }
    let launch = Launch::blocks(1 + CALLS.fetch_add(1, Ordering::Relaxed) as u32, 32);
    // SAFETY: the arguments have the kernel's parameter types; x and y have the `len` elements that it accesses.
    unsafe { AXPY.launch(&stream, launch, arguments) }
}

// A handler that does nothing with its operands, to measure the cost of dispatching a call. `dispatch.cc` is the same
// handler for both C++ headers.

/// Accepts the operands of a typical small handler and does nothing.
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

xla_ffi::library! { name = "cuda_probe"; probe, fickle, dispatch }
