//! A handler that copies its operand and keeps count of how it was called: for the tests and benches of
//! the GPU, where it is the measure that kernels are compared to.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use xla_ffi::cuda::Stream;
use xla_ffi::{DeviceBuffer, DeviceOut, Result};

static CALLS: AtomicU64 = AtomicU64::new(0);
static CAPTURED: AtomicU64 = AtomicU64::new(0);
static STREAMS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// y = x, by a copy within the device's memory.
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

/// How often the handler was called.
#[unsafe(no_mangle)]
pub extern "C" fn probe_calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

/// How many of the calls were captured into a command buffer.
#[unsafe(no_mangle)]
pub extern "C" fn probe_captured() -> u64 {
    CAPTURED.load(Ordering::Relaxed)
}

/// On how many streams it was called.
#[unsafe(no_mangle)]
pub extern "C" fn probe_streams() -> u64 {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
}

xla_ffi::library! { name = "cuda_probe"; probe }
