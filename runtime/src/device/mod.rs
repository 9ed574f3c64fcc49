//! Devices as handlers see them: a stream, and an allocator for scratch memory.

pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;

pub use cpu::{CpuDevice, CpuStream};
#[cfg(feature = "cuda")]
pub use cuda::{CudaDevice, CudaMemory, CudaStream};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use xla_ffi_sys::{Error, ErrorCode, Result};

/// A stream that the host can put work on and wait for.
///
/// # Safety
/// The handle is what the platform's driver takes for a stream, for as long as this is there. Work runs once, behind what
/// is on the stream, and [`DeviceStream::synchronize`] gives `Ok` when all of it has run: results are read then, and
/// memory is used again.
pub unsafe trait DeviceStream: Send + Sync {
    /// What handlers are given.
    fn handle(&self) -> *mut c_void;
    /// Puts work behind everything that is on the stream.
    fn enqueue(&self, work: Box<dyn FnOnce() + Send>);
    /// The same, where work may be refused: [`Stream::enqueue`] answers with it.
    ///
    /// # Errors
    /// Those of the stream: `FAILED_PRECONDITION` of a [`CpuStream`](crate::CpuStream) in a fork.
    fn try_enqueue(&self, work: Box<dyn FnOnce() + Send>) -> Result<()> {
        self.enqueue(work);
        Ok(())
    }
    /// Waits until everything on the stream has run.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` where this thread cannot wait, because it is what the stream's work runs on;
    /// others where the stream runs nothing any more.
    fn synchronize(&self) -> Result<()>;
}

/// A platform's stream, which handlers see as a pointer (`CUstream` for instance).
#[derive(Clone)]
pub struct Stream {
    handle: usize,
    device: Option<Arc<dyn DeviceStream>>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({:p})", self.handle())
    }
}

impl Stream {
    /// A stream that somebody else keeps alive for as long as calls use it, and waits for.
    ///
    /// # Safety
    /// The handle is what the platform's driver takes for a stream while calls use it, or they run no handler that
    /// hands it to a driver.
    #[must_use]
    pub unsafe fn borrowed(handle: *mut c_void) -> Self {
        Self {
            handle: handle as usize,
            device: None,
        }
    }

    /// A stream that calls keep alive and wait for before their results are read; scratch memory
    /// lives until the stream has run what the call put on it.
    #[must_use]
    pub fn from_device(device: Arc<dyn DeviceStream>) -> Self {
        Self {
            handle: device.handle() as usize,
            device: Some(device),
        }
    }

    /// What handlers are given.
    #[must_use]
    pub fn handle(&self) -> *mut c_void {
        self.handle as *mut c_void
    }

    /// Puts work behind everything that is on the stream.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` for a borrowed stream, of which the handle alone is known, and in a fork of the process that made a
    /// CPU stream.
    pub fn enqueue(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let device = self.device.as_ref().ok_or_else(|| {
            Error::new(
                ErrorCode::FailedPrecondition,
                "use the platform's functions to put work on a stream that the program provides",
            )
        })?;
        device.try_enqueue(Box::new(work))
    }

    /// Waits until everything on the stream has run; for a borrowed one its owner does.
    ///
    /// # Errors
    /// As [`DeviceStream::synchronize`].
    pub fn synchronize(&self) -> Result<()> {
        self.device
            .as_ref()
            .map_or(Ok(()), |device| device.synchronize())
    }

    /// Waits until everything on the stream has run, and drops what that uses: on a thread of its own where this
    /// one cannot wait.
    pub(crate) fn synchronize_and_drop<T: Send + 'static>(&self, used: T) {
        match self.synchronize() {
            Err(error) if error.code() == ErrorCode::FailedPrecondition => {
                let stream = self.clone();
                let used = std::mem::ManuallyDrop::new(used);
                let waiter = std::thread::Builder::new().name("xla-ffi-sweep".into());
                // Where there is no thread to be had, it stays for ever.
                let _ = waiter.spawn(move || {
                    if let Err(error) = stream.synchronize() {
                        crate::process::warn(format_args!("{error}"));
                    }
                    drop(std::mem::ManuallyDrop::into_inner(used));
                });
            }
            Err(error) => crate::process::warn(format_args!("{error}")),
            Ok(()) => {}
        }
    }

    /// Frees scratch memory: at once, or when the stream has run what uses it.
    ///
    /// # Safety
    /// The allocator gave it for this size, it has not been freed, and nothing but the stream uses it.
    pub(crate) unsafe fn free(
        stream: Option<&Self>,
        allocator: &Arc<dyn DeviceAllocator>,
        data: *mut c_void,
        size: usize,
    ) {
        match stream.and_then(|stream| stream.device.as_ref()) {
            // SAFETY: as promised by the caller.
            None => unsafe { allocator.free(data, size) },
            Some(device) => {
                let allocator = allocator.clone();
                let address = data as usize;
                device.enqueue(Box::new(move || {
                    // SAFETY: as promised by the caller, and the stream has run what used it.
                    unsafe { allocator.free(address as *mut c_void, size) }
                }));
            }
        }
    }
}

/// Where scratch memory comes from. What a handler does not free is freed after the call, and told
/// ([`Hazard::ScratchLeak`](crate::Hazard::ScratchLeak)): XLA frees none of it.
///
/// # Safety
/// What is allocated has as many bytes as was asked for, aligned so, on the device of the calls that it is for, and is
/// nobody else's until it is freed.
pub unsafe trait DeviceAllocator: Send + Sync {
    /// `size` bytes (not 0), aligned to a power of two, 256 or more for handlers; `None` when they cannot be allocated.
    fn allocate(&self, size: usize, alignment: usize) -> Option<*mut c_void>;
    /// Frees what `allocate` gave.
    ///
    /// # Safety
    /// It was given for this size, has not been freed, and nobody uses it any more.
    ///
    /// ```compile_fail,E0133
    /// use xla_ffi_runtime::{DeviceAllocator, HostAllocator};
    ///
    /// let allocator = HostAllocator::default();
    /// let memory = allocator.allocate(64, 64).unwrap();
    /// allocator.free(memory, 64); // somebody may have it
    /// ```
    unsafe fn free(&self, data: *mut c_void, size: usize);
}

/// Scratch memory on the host.
#[derive(Default)]
pub struct HostAllocator {
    layouts: Mutex<BTreeMap<usize, std::alloc::Layout>>,
}

impl HostAllocator {
    /// How many allocations have not been freed.
    #[must_use]
    pub fn living(&self) -> usize {
        self.layouts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}

// SAFETY: the system's allocator gives memory of the layout that it is asked for.
unsafe impl DeviceAllocator for HostAllocator {
    fn allocate(&self, size: usize, alignment: usize) -> Option<*mut c_void> {
        if size == 0 {
            return None;
        }
        let layout = std::alloc::Layout::from_size_align(size, alignment.max(64)).ok()?;
        // SAFETY: the size is not 0.
        let data = unsafe { std::alloc::alloc(layout) };
        if data.is_null() {
            return None;
        }
        self.layouts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(data as usize, layout);
        Some(data.cast())
    }

    unsafe fn free(&self, data: *mut c_void, _size: usize) {
        let layout = self
            .layouts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&(data as usize));
        if let Some(layout) = layout {
            // SAFETY: allocated with this layout and taken out of the map once.
            unsafe { std::alloc::dealloc(data.cast(), layout) };
        }
    }
}
