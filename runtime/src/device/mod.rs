//! Devices for calls: a stream, and an allocator for scratch memory.

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

/// A stream of a device: the host can enqueue work on the stream and wait for the work.
///
/// # Safety
/// The handle must be a valid stream of the platform's driver while this object exists. Work must run exactly once,
/// after all earlier work on the stream. [`DeviceStream::synchronize`] must return `Ok` only when all work is done,
/// because the host then reads results and reuses memory.
pub unsafe trait DeviceStream: Send + Sync {
    /// Returns the stream's handle, which handlers receive.
    fn handle(&self) -> *mut c_void;
    /// Enqueues `work` after all work that is already on the stream.
    fn enqueue(&self, work: Box<dyn FnOnce() + Send>);
    /// Enqueues work like [`DeviceStream::enqueue`], on streams that may reject work. [`Stream::enqueue`] returns the
    /// error of this function.
    ///
    /// # Errors
    /// Errors of the stream, for example `FAILED_PRECONDITION` for a [`CpuStream`](crate::CpuStream) in a
    /// fork.
    fn try_enqueue(&self, work: Box<dyn FnOnce() + Send>) -> Result<()> {
        self.enqueue(work);
        Ok(())
    }
    /// Waits until all work on the stream is done.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` on the thread that runs the stream's work, which cannot wait for itself; other errors if
    /// the stream can no longer run work.
    fn synchronize(&self) -> Result<()>;
}

/// A platform's stream. Handlers receive it as a pointer, for example as a `CUstream`.
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
    /// Returns a stream for a handle that the caller owns. The caller must synchronize the stream, and must not
    /// destroy it while calls use it.
    ///
    /// # Safety
    /// While calls use the stream, the handle must be a valid stream of the platform's driver. The exception is a
    /// handle that no handler passes to a driver.
    #[must_use]
    pub unsafe fn borrowed(handle: *mut c_void) -> Self {
        Self {
            handle: handle as usize,
            device: None,
        }
    }

    /// Returns a stream that calls own together with the caller. The runtime synchronizes the stream before results
    /// are read. Scratch memory is freed after the stream has done the work of the call.
    #[must_use]
    pub fn from_device(device: Arc<dyn DeviceStream>) -> Self {
        Self {
            handle: device.handle() as usize,
            device: Some(device),
        }
    }

    /// Returns the stream's handle, which handlers receive.
    #[must_use]
    pub fn handle(&self) -> *mut c_void {
        self.handle as *mut c_void
    }

    /// Enqueues work after all work that is already on the stream.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` for a borrowed stream, because only its handle is known, and for a CPU stream in a fork
    /// of the process that created the stream.
    pub fn enqueue(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let device = self.device.as_ref().ok_or_else(|| {
            Error::new(
                ErrorCode::FailedPrecondition,
                "use the platform's functions to put work on a stream that the program provides",
            )
        })?;
        device.try_enqueue(Box::new(work))
    }

    /// Waits until all work on the stream is done. Returns immediately for a borrowed stream, which its owner
    /// synchronizes.
    ///
    /// # Errors
    /// The errors of [`DeviceStream::synchronize`].
    pub fn synchronize(&self) -> Result<()> {
        self.device
            .as_ref()
            .map_or(Ok(()), |device| device.synchronize())
    }

    /// Waits until all work on the stream is done, then drops the value that the work uses. If the calling thread
    /// cannot wait for the stream, a new thread waits and drops the value.
    pub(crate) fn synchronize_and_drop<T: Send + 'static>(&self, used: T) {
        match self.synchronize() {
            Err(error) if error.code() == ErrorCode::FailedPrecondition => {
                let stream = self.clone();
                let used = std::mem::ManuallyDrop::new(used);
                let waiter = std::thread::Builder::new().name("xla-ffi-sweep".into());
                // If the system cannot start a thread, the value is leaked.
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

    /// Frees scratch memory: immediately if `stream` is `None` or borrowed, otherwise after the stream has done its
    /// work.
    ///
    /// # Safety
    /// The allocator must have returned `data` for this size. The memory must not have been freed, and only work on
    /// the stream may still use it.
    pub(crate) unsafe fn free(
        stream: Option<&Self>,
        allocator: &Arc<dyn DeviceAllocator>,
        data: *mut c_void,
        size: usize,
    ) {
        match stream.and_then(|stream| stream.device.as_ref()) {
            // SAFETY: guaranteed by the caller.
            None => unsafe { allocator.free(data, size) },
            Some(device) => {
                let allocator = allocator.clone();
                let address = data as usize;
                device.enqueue(Box::new(move || {
                    // SAFETY: guaranteed by the caller; the stream has done the work that used the memory.
                    unsafe { allocator.free(address as *mut c_void, size) }
                }));
            }
        }
    }
}

/// An allocator for scratch memory.
///
/// Memory that a handler does not free is freed after the call and reported as
/// [`Hazard::ScratchLeak`](crate::Hazard::ScratchLeak). XLA leaks such memory.
///
/// # Safety
/// Allocations must have the requested size and alignment, and must be on the device of the calls that use this
/// allocator. No other code may use an allocation until it is freed.
pub unsafe trait DeviceAllocator: Send + Sync {
    /// Allocates `size` bytes, or returns `None` if the memory is exhausted. `size` is not 0. `alignment` is a power
    /// of two, and at least 256 for requests of handlers.
    fn allocate(&self, size: usize, alignment: usize) -> Option<*mut c_void>;
    /// Frees memory that `allocate` returned.
    ///
    /// # Safety
    /// `allocate` must have returned `data` for this size. The memory must not have been freed, and no code may still
    /// use it.
    ///
    /// ```compile_fail,E0133
    /// use xla_ffi_runtime::{DeviceAllocator, HostAllocator};
    ///
    /// let allocator = HostAllocator::default();
    /// let memory = allocator.allocate(64, 64).unwrap();
    /// allocator.free(memory, 64); // Other code may still use the memory.
    /// ```
    unsafe fn free(&self, data: *mut c_void, size: usize);
}

/// An allocator for scratch memory in host memory.
#[derive(Default)]
pub struct HostAllocator {
    layouts: Mutex<BTreeMap<usize, std::alloc::Layout>>,
}

impl HostAllocator {
    /// Returns the number of allocations that have not been freed.
    #[must_use]
    pub fn living(&self) -> usize {
        self.layouts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}

// SAFETY: the system's allocator returns memory of the requested layout.
unsafe impl DeviceAllocator for HostAllocator {
    fn allocate(&self, size: usize, alignment: usize) -> Option<*mut c_void> {
        if size == 0 {
            return None;
        }
        let layout = std::alloc::Layout::from_size_align(size, alignment.max(64)).ok()?;
        // SAFETY: the size of `layout` is not 0.
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
            // SAFETY: the memory was allocated with this layout. Its map entry was removed, so the memory is freed
            // once.
            unsafe { std::alloc::dealloc(data.cast(), layout) };
        }
    }
}
