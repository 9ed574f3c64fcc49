//! Kernels and their launch.

use std::borrow::Cow;
use std::ffi::{CString, c_void};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::context::{CudaContext, PerContext};
use super::driver::check;
use super::module::{Module, Relaxed};
use super::stream::Stream;
use crate::context::launch::{KernelArgs, Launch};
use crate::error::{Error, Result};
use cudarc::driver::{CudaSlice, CudaStream, sys};

/// A kernel of a module. The kernel is looked up once per context.
///
/// ```no_run
/// use xla_ffi::cuda::{Kernel, Module, Stream};
/// use xla_ffi::prelude::*;
/// use xla_ffi::{DeviceBuffer, DeviceOut, Launch};
///
/// static MODULE: Module = Module::new(
///     b"extern \"C\" __global__ void add_one(const float* x, float* y, unsigned long long n) {
///         unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
///         if (i < n) y[i] = x[i] + 1;
///     }",
/// );
/// static ADD_ONE: Kernel = MODULE.kernel("add_one");
///
/// struct AddOne;
///
/// #[xla_ffi::stateful(platforms = ["cuda"], command_buffer_compatible, shape = "... -> ...")]
/// impl AddOne {
///     fn instantiate() -> Result<Self> {
///         Ok(Self)
///     }
///
///     /// Loading allocates, which a captured call must not do.
///     fn initialize(stream: Stream) -> Result<()> {
///         println!("loading {}", ADD_ONE.name());
///         ADD_ONE.load(stream.context()?).map(drop)
///     }
///
///     fn execute(&self, x: DeviceBuffer<f32>, y: DeviceOut<f32>, stream: Stream) -> Result<()> {
///         let arguments = (&x, &y, x.len() as u64);
///         // SAFETY: the kernel's parameters, which have `len` elements each.
///         unsafe { ADD_ONE.launch(&stream, Launch::over(x.len(), 256), arguments) }
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Kernel {
    module: Source,
    name: Cow<'static, str>,
    found: PerContext<Function>,
}

#[derive(Debug)]
enum Source {
    Static(&'static Module),
    Shared(Arc<Module>),
}

#[derive(Clone, Copy, Debug)]
struct Function(sys::CUfunction);

// SAFETY: the value is a handle, which the driver's functions accept on any thread.
unsafe impl Send for Function {}
// SAFETY: the value is a handle, which the driver's functions accept on any thread.
unsafe impl Sync for Function {}

impl Kernel {
    pub(super) const fn of_static(module: &'static Module, name: &'static str) -> Self {
        Self {
            module: Source::Static(module),
            name: Cow::Borrowed(name),
            found: PerContext::new(),
        }
    }

    pub(super) fn of_shared(module: Arc<Module>, name: Cow<'static, str>) -> Self {
        Self {
            module: Source::Shared(module),
            name,
            found: PerContext::new(),
        }
    }

    /// Returns the kernel's name in its module.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the driver's handle of the kernel in a context, and loads the module if necessary.
    /// To avoid loading in later calls, call this method in an initialize stage.
    ///
    /// # Errors
    /// The errors of [`Module::load`], and `NOT_FOUND` if the module has no kernel with this name.
    /// Declare C++ kernels `extern "C"` to avoid name mangling.
    #[inline]
    pub fn load(&self, context: CudaContext) -> Result<sys::CUfunction> {
        match self.found.look(context, |function| function.0) {
            Some(function) => Ok(function),
            None => self.find(context),
        }
    }

    #[cold]
    fn find(&self, context: CudaContext) -> Result<sys::CUfunction> {
        let made = self.found.get_or_make(context, || {
            let module = match &self.module {
                Source::Static(module) => module.load(context)?,
                Source::Shared(module) => module.load(context)?,
            };
            let name = CString::new(self.name.as_bytes()).map_err(|_| {
                Error::invalid_argument(format!(
                    "the kernel's name {:?} has a NUL in it",
                    self.name
                ))
            })?;
            let _current = context.make_current()?;
            let _relaxed = Relaxed::enter();
            let mut function = std::ptr::null_mut();
            // SAFETY: the module is loaded, and the name is NUL-terminated.
            let answer =
                unsafe { sys::cuModuleGetFunction(&raw mut function, module, name.as_ptr()) };
            check(&format!("cuModuleGetFunction({:?})", self.name), answer)?;
            Ok(Function(function))
        })?;
        Ok(made.0)
    }

    #[cold]
    fn allow_shared(&self, function: sys::CUfunction, bytes: u32) -> Result<()> {
        let attribute =
            sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let most = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: this kernel loaded the function, and the driver checks the value `most`.
        let answer = unsafe { sys::cuFuncSetAttribute(function, attribute, most) };
        if answer == sys::CUresult::CUDA_SUCCESS {
            return Ok(());
        }
        check(
            &format!(
                "cuFuncSetAttribute({:?}, {bytes} bytes of shared memory)",
                self.name
            ),
            answer,
        )
    }

    /// Launches the kernel on the stream. A launch without blocks does nothing.
    ///
    /// # Errors
    /// The errors of [`Kernel::load`], and `INVALID_ARGUMENT` if the device does not support the
    /// launch dimensions.
    ///
    /// # Safety
    /// The kernel's parameters match `arguments` in order and size. The kernel stays within the
    /// operands' memory and within the dynamic shared memory of `launch`.
    #[inline]
    pub unsafe fn launch(
        &self,
        stream: &Stream<'_>,
        launch: Launch,
        arguments: impl KernelArgs,
    ) -> Result<()> {
        if launch.is_empty() {
            return Ok(());
        }
        let function = self.load(stream.context()?)?;
        if launch.shared_bytes > SHARED_UNASKED {
            self.allow_shared(function, launch.shared_bytes)?;
        }
        let answer = arguments.with_raw_args(|arguments| {
            let mut places = [std::ptr::null_mut::<c_void>(); 16];
            for (place, argument) in places.iter_mut().zip(arguments) {
                *place = argument.value.cast_mut();
            }
            if launch.cluster == [1, 1, 1] && !launch.overlaps {
                let ([x, y, z], [bx, by, bz]) = (launch.grid, launch.block);
                // SAFETY: the caller guarantees that kernel and arguments match; the driver copies
                // the arguments.
                unsafe {
                    sys::cuLaunchKernel(
                        function,
                        x,
                        y,
                        z,
                        bx,
                        by,
                        bz,
                        launch.shared_bytes,
                        stream.as_raw(),
                        places.as_mut_ptr(),
                        std::ptr::null_mut(),
                    )
                }
            } else {
                // SAFETY: the caller guarantees that kernel and arguments match; the driver copies
                // the arguments.
                unsafe { launch_with_attributes(function, stream, launch, &mut places) }
            }
        });
        if answer == sys::CUresult::CUDA_SUCCESS {
            return Ok(());
        }
        check(
            &format!("cuLaunchKernel({:?}, {launch:?})", self.name),
            answer,
        )
    }
}

/// The dynamic shared memory in bytes that a block can use on every device without raising the
/// kernel's limit.
const SHARED_UNASKED: u32 = 48 << 10;

/// Launches a kernel with a cluster or with programmatic dependent launch.
///
/// # Safety
/// The requirements of [`Kernel::launch`] apply.
#[cold]
unsafe fn launch_with_attributes(
    function: sys::CUfunction,
    stream: &Stream<'_>,
    launch: Launch,
    places: &mut [*mut c_void; 16],
) -> sys::CUresult {
    use sys::CUlaunchAttributeID as Id;
    let attribute = |id, value| sys::CUlaunchAttribute {
        id,
        pad: [0; 4],
        value,
    };
    let [x, y, z] = launch.cluster;
    // SAFETY: the type is a union of numbers, and all zeros are valid numbers.
    let mut cluster: sys::CUlaunchAttributeValue = unsafe { std::mem::zeroed() };
    cluster.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
    // SAFETY: the type is a union of numbers, and all zeros are valid numbers.
    let mut overlaps: sys::CUlaunchAttributeValue = unsafe { std::mem::zeroed() };
    overlaps.programmaticStreamSerializationAllowed = i32::from(launch.overlaps);
    let mut attributes = [
        attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, cluster),
        attribute(
            Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            overlaps,
        ),
    ];
    let config = sys::CUlaunchConfig {
        gridDimX: launch.grid[0],
        gridDimY: launch.grid[1],
        gridDimZ: launch.grid[2],
        blockDimX: launch.block[0],
        blockDimY: launch.block[1],
        blockDimZ: launch.block[2],
        sharedMemBytes: launch.shared_bytes,
        hStream: stream.as_raw(),
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    };
    // SAFETY: the caller guarantees that kernel and arguments match; the driver copies the arguments.
    unsafe {
        sys::cuLaunchKernelEx(
            &raw const config,
            function,
            places.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    }
}

/// An operand as a cudarc slice that does not free the memory, because XLA owns the memory.
///
/// Created by [`Stream::view`](super::Stream::view) and [`Stream::view_out`](super::Stream::view_out). Pass the view
/// to cudarc's launches and libraries.
///
/// ```no_run
/// use xla_ffi::cuda::{Stream, View};
/// use xla_ffi::prelude::*;
/// use xla_ffi::{DeviceBuffer, DeviceOut};
///
/// fn copy(x: &DeviceBuffer<f32>, y: &DeviceOut<f32>, stream: &Stream) -> Result<()> {
///     // SAFETY: used before the handler returns, one view of each; `x` is only read.
///     let (x, mut y): (View<f32>, View<f32>) = unsafe { (stream.view(x)?, stream.view_out(y)?) };
///     // SAFETY: as above.
///     let copied = unsafe { stream.to_cudarc() }?.memcpy_dtod(&*x, &mut *y);
///     copied.map_err(|error| Error::internal(error.to_string()))
/// }
/// ```
#[derive(Debug)]
pub struct View<T> {
    slice: ManuallyDrop<CudaSlice<T>>,
}

impl<T> View<T> {
    /// Creates a view of device memory.
    ///
    /// # Safety
    /// `address` points to `len` elements on the stream's device as long as the view is used.
    pub(super) unsafe fn new(stream: &Arc<CudaStream>, address: u64, len: usize) -> Self {
        // SAFETY: the caller guarantees valid memory, and `drop` does not free the memory.
        let slice = unsafe { stream.upgrade_device_ptr(address, len) };
        Self {
            slice: ManuallyDrop::new(slice),
        }
    }
}

impl<T> Drop for View<T> {
    fn drop(&mut self) {
        // SAFETY: only `drop` takes the slice, and `drop` runs once.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        // `leak` releases the stream and does not free the memory.
        slice.leak();
    }
}

impl<T> Deref for View<T> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        &self.slice
    }
}

impl<T> DerefMut for View<T> {
    fn deref_mut(&mut self) -> &mut CudaSlice<T> {
        &mut self.slice
    }
}
