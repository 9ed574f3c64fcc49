//! CUDA contexts, and values that are cached per context.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::{Arc, PoisonError, RwLock};

use super::driver::{check, ready};
use crate::error::{Error, Result};
use cudarc::driver::sys;

/// A CUDA context that XLA created, one per device. Returned by [`Stream::context`](super::Stream::context).
///
/// ```no_run
/// use xla_ffi::cuda::cudarc::driver::sys::CUdevice_attribute as Attribute;
/// use xla_ffi::cuda::{CudaContext, Stream};
/// use xla_ffi::prelude::*;
/// use xla_ffi::{DeviceOut, Launch};
///
/// /// A grid that fills the device once, and strides.
/// fn grid(context: CudaContext, len: usize) -> Result<Launch> {
///     let blocks = len.div_ceil(256).min(4 * context.multiprocessors()? as usize);
///     let shared = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?;
///     assert!(context.compute_capability()? >= (7, 0) && shared >= 1024);
///     Ok(Launch::over(blocks * 256, 256))
/// }
///
/// #[xla_ffi::handler(platforms = ["cuda"])]
/// fn zeros(y: DeviceOut<f32>, stream: Stream) -> Result<()> {
///     let context = stream.context()?;
///     let _launch = grid(context, y.len())?;
///     // For the driver's own functions, and for cudarc's.
///     let _current = context.make_current()?;
///     println!("device {} of {:p}", context.device()?, context.as_raw());
///     println!("{}", context.to_cudarc()?.name().unwrap_or_default());
///     stream.fill_bytes(&y, 0)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CudaContext(pub(super) sys::CUcontext);

// SAFETY: the value is a handle, which the driver's functions accept on any thread.
unsafe impl Send for CudaContext {}
// SAFETY: the value is a handle, which the driver's functions accept on any thread.
unsafe impl Sync for CudaContext {}

/// A guard that makes a context current on this thread until dropped.
///
/// ```no_run
/// use xla_ffi::cuda::{Current, Stream};
/// use xla_ffi::prelude::*;
///
/// fn with_library(stream: &Stream) -> Result<()> {
///     let current: Current = stream.context()?.make_current()?;
///     // … calls of a library that works in the current context …
///     drop(current);
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Current {
    _thread: PhantomData<*const ()>,
}

impl Drop for Current {
    fn drop(&mut self) {
        let mut context = std::ptr::null_mut();
        // SAFETY: the context was pushed on this thread and is on top of the stack, because guards
        // nest.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut context) };
    }
}

impl CudaContext {
    /// Returns the driver's handle of the context. XLA owns the context.
    #[must_use]
    pub fn as_raw(self) -> sys::CUcontext {
        self.0
    }

    /// Makes the context current on this thread, for driver functions that require a current
    /// context.
    ///
    /// # Errors
    /// Any error of the driver.
    pub fn make_current(self) -> Result<Current> {
        // SAFETY: XLA keeps the context valid.
        check("cuCtxPushCurrent", unsafe {
            sys::cuCtxPushCurrent_v2(self.0)
        })?;
        Ok(Current {
            _thread: PhantomData,
        })
    }

    /// Returns the number that the driver assigned to the device in this process.
    ///
    /// # Errors
    /// Any error of the driver.
    pub fn device(self) -> Result<sys::CUdevice> {
        let _current = self.make_current()?;
        let mut device = 0;
        // SAFETY: the out-parameter points to a number.
        check("cuCtxGetDevice", unsafe {
            sys::cuCtxGetDevice(&raw mut device)
        })?;
        Ok(device)
    }

    /// Returns an attribute of the device.
    ///
    /// # Errors
    /// Any error of the driver.
    pub fn attribute(self, attribute: sys::CUdevice_attribute) -> Result<i32> {
        let device = self.device()?;
        let mut value = 0;
        // SAFETY: the out-parameter points to a number.
        let answer = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, device) };
        check("cuDeviceGetAttribute", answer)?;
        Ok(value)
    }

    /// Returns the compute capability, for example `(9, 0)`.
    ///
    /// # Errors
    /// Any error of the driver.
    pub fn compute_capability(self) -> Result<(i32, i32)> {
        use sys::CUdevice_attribute as Attribute;
        Ok((
            self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ))
    }

    /// Returns the number of multiprocessors. Kernels with a grid-stride loop need a few blocks per multiprocessor.
    ///
    /// # Errors
    /// Any error of the driver.
    pub fn multiprocessors(self) -> Result<u32> {
        /// The number is cached, because handlers request the number in every call.
        static KNOWN: PerContext<u32> = PerContext::new();
        KNOWN
            .get_or_make(self, || {
                use sys::CUdevice_attribute as Attribute;
                let count = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
                Ok(count.unsigned_abs())
            })
            .map(|count| *count)
    }

    /// Returns the context for cudarc's safe interface. XLA owns the context, so the returned value never destroys
    /// it, and cudarc adds no events to streams.
    ///
    /// # Errors
    /// Any error of the driver.
    pub fn to_cudarc(self) -> Result<Arc<cudarc::driver::CudaContext>> {
        ready()?;
        static KNOWN: PerContext<ManuallyDrop<Arc<cudarc::driver::CudaContext>>> =
            PerContext::new();
        let known = KNOWN.get_or_make(self, || {
            let device = self.device()?;
            let _current = self.make_current()?;
            let ordinal = usize::try_from(device).unwrap_or_default();
            // SAFETY: the context is valid and belongs to the device. The returned value is never dropped, so it does
            // not destroy the context.
            let context =
                unsafe { cudarc::driver::CudaContext::from_raw_context(ordinal, device, self.0) }
                    .map_err(|error| Error::internal(format!("cudarc: {error}")))?;
            // SAFETY: events are not needed, because XLA orders the work on its streams.
            unsafe { context.disable_event_tracking() };
            Ok(ManuallyDrop::new(context))
        })?;
        Ok(Arc::clone(&known))
    }
}

/// A value that is created once per context, such as a loaded module or a handle of cuBLAS or cuDNN. Store the
/// `PerContext` in a handler's state or in a `static`.
///
/// ```no_run
/// use std::sync::Mutex;
/// use xla_ffi::cuda::{PerContext, Stream};
/// use xla_ffi::{DeviceBuffer, DeviceOut, prelude::{Error, Result}};
///
/// /// A handle of a library, which is bound to the context that it was made in.
/// struct Blas(*mut std::ffi::c_void);
/// unsafe impl Send for Blas {}
///
/// struct Matmul {
///     // A lock: setting the handle's stream and calling the library belong together.
///     blas: PerContext<Mutex<Blas>>,
/// }
///
/// #[xla_ffi::stateful(platforms = ["cuda"])]
/// impl Matmul {
///     fn instantiate() -> Result<Self> {
///         Ok(Self { blas: PerContext::new() })
///     }
///
///     fn execute(&self, a: DeviceBuffer<f32, 2>, b: DeviceBuffer<f32, 2>, c: DeviceOut<f32, 2>, stream: Stream) -> Result<()> {
///         let context = stream.context()?;
///         let blas = self.blas.get_or_make(context, || {
///             let _current = context.make_current()?;
///             // … cublasCreate …
///             # let handle = std::ptr::null_mut();
///             Ok(Mutex::new(Blas(handle)))
///         })?;
///         let handle = blas.lock().map_err(|_| Error::internal("a call before this one panicked"))?;
///         // … cublasSetStream(handle.0, stream.as_raw()), cublasSgemm(…) …
///         # let _ = (&handle.0, a, b, c);
///         Ok(())
///     }
/// }
/// ```
#[derive(Debug)]
pub struct PerContext<T> {
    made: RwLock<Vec<(CudaContext, Arc<T>)>>,
}

impl<T> PerContext<T> {
    /// Creates an empty cache of values.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            made: RwLock::new(Vec::new()),
        }
    }

    /// Returns the value for `context`, which `make` creates on first use. Concurrent calls for the same context wait
    /// until `make` returns.
    ///
    /// # Errors
    /// The error of `make`. After an error, the next call runs `make` again.
    pub fn get_or_make(
        &self,
        context: CudaContext,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        if let Some(known) = self.look(context, Arc::clone) {
            return Ok(known);
        }
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = made.iter().find(|(known, _)| *known == context) {
            return Ok(known.clone());
        }
        let new = Arc::new(make()?);
        made.push((context, new.clone()));
        Ok(new)
    }

    /// Passes the value for `context` to `look` if the value exists already.
    #[inline]
    pub(super) fn look<R>(
        &self,
        context: CudaContext,
        look: impl FnOnce(&Arc<T>) -> R,
    ) -> Option<R> {
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
        let found = made.iter().find(|(known, _)| *known == context);
        found.map(|(_, made)| look(made))
    }
}

impl<T> Default for PerContext<T> {
    fn default() -> Self {
        Self::new()
    }
}
