//! CUDA devices: streams and scratch memory for handlers that launch kernels, without XLA.

mod capture;

use crate::device::{DeviceAllocator, DeviceStream, Stream};
use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// The primary context of a device. It is released on drop.
struct Context {
    device: sys::CUdevice,
    raw: sys::CUcontext,
}

// SAFETY: the driver's functions accept context handles on any thread.
unsafe impl Send for Context {}
// SAFETY: the driver's functions accept context handles on any thread.
unsafe impl Sync for Context {}

/// A guard that makes a context current on the thread until it is dropped.
struct Current;

impl Drop for Current {
    fn drop(&mut self) {
        let mut context = std::ptr::null_mut();
        // SAFETY: `make_current` pushed a context on this thread. Guards are dropped in reverse order, so this
        // context is the top of the stack.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut context) };
    }
}

impl Context {
    fn new(ordinal: i32) -> Result<Arc<Self>> {
        // SAFETY: the function only loads the driver's library.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                "libcuda.so.1 not found: this machine has no NVIDIA driver, or its folder is not on the \
                 loader's path (LD_LIBRARY_PATH)",
            ));
        }
        // SAFETY: `is_culib_present` has loaded the driver.
        check("cuInit", unsafe { sys::cuInit(0) })?;
        let mut device = 0;
        // SAFETY: the driver writes an integer to the out-parameter, which has this type.
        let found = unsafe { sys::cuDeviceGet(&raw mut device, ordinal) };
        check(&format!("cuDeviceGet({ordinal})"), found)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the driver returned the device; `drop` releases the context.
        let retained = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut raw, device) };
        check("cuDevicePrimaryCtxRetain", retained)?;
        Ok(Arc::new(Self { device, raw }))
    }

    fn make_current(&self) -> Result<Current> {
        // SAFETY: the context is retained until `self` is dropped.
        check("cuCtxPushCurrent", unsafe {
            sys::cuCtxPushCurrent_v2(self.raw)
        })?;
        Ok(Current)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: `new` retained the context once.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

fn check(call: &str, result: CUresult) -> Result<()> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: the driver writes a pointer to the out-parameter, which has this type.
    let known = unsafe { sys::cuGetErrorName(result, &raw mut text) };
    let name = if known == CUresult::CUDA_SUCCESS && !text.is_null() {
        // SAFETY: the driver's error names are NUL-terminated constants.
        unsafe { CStr::from_ptr(text) }.to_string_lossy()
    } else {
        "an error that the driver has no name for".into()
    };
    let code = match result {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => ErrorCode::ResourceExhausted,
        CUresult::CUDA_ERROR_NO_DEVICE | CUresult::CUDA_ERROR_INVALID_DEVICE => ErrorCode::NotFound,
        _ => ErrorCode::Internal,
    };
    let number = result as u32;
    Err(Error::new(code, format!("{call}: {name} ({number})")))
}

/// A stream of a CUDA device. Requires the feature `cuda`.
pub struct CudaStream {
    context: Arc<Context>,
    raw: sys::CUstream,
}

// SAFETY: the driver's functions accept stream handles on any thread.
unsafe impl Send for CudaStream {}
// SAFETY: the driver's functions accept stream handles on any thread.
unsafe impl Sync for CudaStream {}

type Work = Box<dyn FnOnce() + Send>;

/// Runs work that `enqueue` put on a stream. The driver calls this function on a thread of the driver.
unsafe extern "C" fn run_work(data: *mut c_void) {
    // SAFETY: `enqueue` boxed the work, and the driver calls this function once per box.
    let work = unsafe { Box::from_raw(data.cast::<Work>()) };
    if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(*work)) {
        crate::process::guard::discard(payload);
        crate::process::warn(format_args!(
            "a panic left a piece of work on a CUDA stream"
        ));
    }
}

impl CudaStream {
    fn new(context: Arc<Context>) -> Result<Arc<Self>> {
        let current = context.make_current()?;
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current, and `drop` destroys the stream.
        let made = unsafe { sys::cuStreamCreate(&raw mut raw, flags) };
        drop(current);
        check("cuStreamCreate", made)?;
        Ok(Arc::new(Self { context, raw }))
    }

    /// Returns this stream as a [`Stream`], for calls.
    #[must_use]
    pub fn stream(self: &Arc<Self>) -> Stream {
        Stream::from_device(self.clone())
    }

    /// Copies bytes from the host to the device, and waits until they are copied.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if `bytes` does not fit into `to`, and errors of the driver.
    pub fn upload(&self, bytes: &[u8], to: &CudaMemory) -> Result<()> {
        to.check_room(bytes.len())?;
        let _current = self.context.make_current()?;
        // SAFETY: the two memory regions have this many bytes and are valid until the stream has run the copy.
        let copied = unsafe {
            sys::cuMemcpyHtoDAsync_v2(to.address, bytes.as_ptr().cast(), bytes.len(), self.raw)
        };
        check("cuMemcpyHtoDAsync", copied)?;
        self.wait()
    }

    /// Copies bytes from the device to the host after all work on the stream, and waits until they are copied.
    ///
    /// # Errors
    /// The errors of [`CudaStream::upload`].
    pub fn download(&self, from: &CudaMemory, bytes: &mut [u8]) -> Result<()> {
        from.check_room(bytes.len())?;
        let _current = self.context.make_current()?;
        // SAFETY: the two memory regions have this many bytes and are valid until the stream has run the copy.
        let copied = unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                bytes.as_mut_ptr().cast(),
                from.address,
                bytes.len(),
                self.raw,
            )
        };
        check("cuMemcpyDtoHAsync", copied)?;
        self.wait()
    }

    /// Waits until the device has done all work on the stream.
    ///
    /// # Errors
    /// Errors of the driver, including those of kernels that ran on the stream.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the stream exists until `self` is dropped.
        check("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(self.raw)
        })
    }
}

// SAFETY: the handle is a stream of the driver, which runs the stream's work in order.
unsafe impl DeviceStream for CudaStream {
    fn handle(&self) -> *mut c_void {
        self.raw.cast()
    }

    fn enqueue(&self, work: Work) {
        let data = Box::into_raw(Box::new(work)).cast::<c_void>();
        // SAFETY: the stream exists until `self` is dropped; the driver runs the work once.
        let queued = unsafe { sys::cuLaunchHostFunc(self.raw, Some(run_work), data) };
        if queued != CUresult::CUDA_SUCCESS {
            // A stream in an error state does not run further work, so no work uses the memory that `data` frees.
            if let Err(error) = self.wait() {
                crate::process::warn(format_args!("{error}"));
            }
            // SAFETY: the driver rejected the work, so only this code runs it.
            unsafe { run_work(data) };
        }
    }

    fn synchronize(&self) -> Result<()> {
        self.wait()
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.make_current() {
            // SAFETY: `new` created the stream, and only `drop` destroys it. The driver still completes pending work.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}

/// Memory of a CUDA device. It is freed on drop. Requires the feature `cuda`.
pub struct CudaMemory {
    context: Arc<Context>,
    address: sys::CUdeviceptr,
    size: usize,
}

impl CudaMemory {
    /// Returns the address of the memory on the device; null for 0 bytes.
    #[must_use]
    pub fn address(&self) -> *mut c_void {
        self.address as *mut c_void
    }

    /// Returns the size of the memory in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    fn check_room(&self, bytes: usize) -> Result<()> {
        if bytes <= self.size {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "{bytes} bytes are to be copied, the device memory has {}",
            self.size
        )))
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        if self.size > 0 {
            free(&self.context, self.address);
        }
    }
}

fn allocate(context: &Context, size: usize) -> Result<sys::CUdeviceptr> {
    if size == 0 {
        return Ok(0);
    }
    let _current = context.make_current()?;
    let mut address = 0;
    // SAFETY: the context is current, and the driver writes an address to the out-parameter, which has this type.
    let made = unsafe { sys::cuMemAlloc_v2(&raw mut address, size) };
    check(&format!("cuMemAlloc({size})"), made)?;
    Ok(address)
}

fn free(context: &Context, address: sys::CUdeviceptr) {
    if let Ok(_current) = context.make_current() {
        // SAFETY: `allocate` allocated the memory, and only `drop` frees it.
        let _ = unsafe { sys::cuMemFree_v2(address) };
    }
}

/// An allocator for scratch memory on a CUDA device.
struct CudaAllocator {
    context: Arc<Context>,
}

// SAFETY: the driver returns memory on the device that does not overlap other allocations.
unsafe impl DeviceAllocator for CudaAllocator {
    fn allocate(&self, size: usize, alignment: usize) -> Option<*mut c_void> {
        // The driver aligns memory to 256 bytes.
        if alignment > 256 {
            return None;
        }
        let address = allocate(&self.context, size).ok()?;
        (address != 0).then_some(address as *mut c_void)
    }

    unsafe fn free(&self, data: *mut c_void, _size: usize) {
        free(&self.context, data as u64);
    }
}

/// A CUDA device: its primary context, a stream, and scratch memory. Requires the feature `cuda`.
///
/// The caller manages the operands of calls. Allocate operands with [`CudaDevice::allocate`], and pass their
/// addresses in a [`CallFrame`](crate::CallFrame) to [`Call::prepare_on`](crate::Call::prepare_on). Use
/// [`CudaDevice::stream`] as the stream of the call.
///
/// ```no_run
/// use xla_ffi_runtime::CudaDevice;
///
/// # fn main() -> xla_ffi_runtime::Result<()> {
/// let device = CudaDevice::new(0)?;
/// let memory = device.allocate(1024)?;
/// device.stream.upload(&[7; 1024], &memory)?;
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub struct CudaDevice {
    /// The stream of the device.
    pub stream: Arc<CudaStream>,
    /// The allocator for the scratch memory of calls.
    pub allocator: Arc<dyn DeviceAllocator>,
    context: Arc<Context>,
}

impl CudaDevice {
    /// Opens the device with this ordinal and creates a stream.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if no driver is installed; `NOT_FOUND` if the device does not exist.
    pub fn new(ordinal: i32) -> Result<Self> {
        let context = Context::new(ordinal)?;
        Ok(Self {
            stream: CudaStream::new(context.clone())?,
            allocator: Arc::new(CudaAllocator {
                context: context.clone(),
            }),
            context,
        })
    }

    /// Creates an additional stream of the device.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn new_stream(&self) -> Result<Arc<CudaStream>> {
        CudaStream::new(self.context.clone())
    }

    /// Allocates `size` bytes of device memory, aligned to 256 bytes.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if not enough memory is free.
    pub fn allocate(&self, size: usize) -> Result<CudaMemory> {
        Ok(CudaMemory {
            address: allocate(&self.context, size)?,
            context: self.context.clone(),
            size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_is_told() {
        match CudaDevice::new(0) {
            Ok(device) => {
                let memory = device.allocate(16).unwrap();
                device.stream.upload(&[3; 16], &memory).unwrap();
                let mut bytes = [0; 16];
                device.stream.download(&memory, &mut bytes).unwrap();
                assert_eq!(bytes, [3; 16]);
            }
            Err(error) if error.code() == ErrorCode::FailedPrecondition => {
                let text = error.message();
                assert!(text.starts_with("libcuda.so.1 not found"), "{text}");
            }
            // Without a device, the driver returns an error.
            Err(error) => assert!(error.message().contains("CUDA_ERROR"), "{error}"),
        }
    }
}
