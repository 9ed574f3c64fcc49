//! Modules: the code of kernels, loaded once per context.

use std::borrow::Cow;
use std::ffi::{CString, c_char};
use std::sync::Arc;

use super::context::{CudaContext, PerContext};
use super::driver::check;
use super::kernel::Kernel;
use crate::error::{Error, Result};
use cudarc::driver::sys;
use cudarc::nvrtc::{result, sys as nvrtc};

/// The format of a module's code, detected from the bytes of the code.
///
/// ```
/// use xla_ffi::cuda::Image;
///
/// assert_eq!(Image::of(b"\x50\xed\x55\xba\x01\0"), Image::FatBinary);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Image {
    /// Machine code for one device architecture.
    Cubin,
    /// Machine code and PTX for several device architectures (`nvcc -fatbin`).
    FatBinary,
    /// PTX text, which the driver compiles.
    Ptx,
    /// CUDA C++ source code, which NVRTC compiles for the current device.
    Source,
}

impl Image {
    /// Detects the format of `bytes`: an ELF file, a fat binary, text with PTX's `.version` line, or
    /// other text.
    ///
    /// ```
    /// use xla_ffi::cuda::Image;
    ///
    /// assert_eq!(Image::of(b"\x7fELF..."), Image::Cubin);
    /// assert_eq!(Image::of(b"// by hand\n.version 7.0\n.target sm_75\n"), Image::Ptx);
    /// assert_eq!(Image::of(b"extern \"C\" __global__ void k() {}"), Image::Source);
    /// ```
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(b"\x7fELF") {
            return Self::Cubin;
        }
        if bytes.starts_with(&[0x50, 0xed, 0x55, 0xba]) {
            return Self::FatBinary;
        }
        let is_ptx = bytes
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::trim_ascii_start)
            .find(|line| !line.is_empty() && !line.starts_with(b"//"))
            .is_some_and(|line| line.starts_with(b".version"));
        if is_ptx { Self::Ptx } else { Self::Source }
    }
}

/// The code of kernels. A context loads the module when it first needs one of the kernels; dropping
/// the module unloads it. Store the module in a `static` or in a handler's state.
///
/// ```
/// use std::sync::Arc;
/// use xla_ffi::Result;
/// use xla_ffi::cuda::{Image, Kernel, Module, Stream};
///
/// // A build script puts a file there: what nvcc made, or the source itself.
/// static MODULE: Module = Module::new(b"extern \"C\" __global__ void scale(...) { ... }");
/// static SCALE: Kernel = MODULE.kernel("scale");
/// assert_eq!((MODULE.image(), SCALE.name()), (Image::Source, "scale"));
///
/// // Of text that the program made: it lives as long as its kernels.
/// let made = Arc::new(Module::from_vec(b".version 7.0\n".to_vec()));
/// let kernel = made.shared_kernel(format!("scale_{}", 4));
/// assert_eq!((made.image(), kernel.name()), (Image::Ptx, "scale_4"));
///
/// /// Loads it before the first call needs it.
/// fn warm_up(stream: &Stream) -> Result<()> {
///     MODULE.load(stream.context()?).map(drop)
/// }
/// ```
#[derive(Debug)]
pub struct Module {
    image: Cow<'static, [u8]>,
    loaded: PerContext<Loaded>,
}

impl Module {
    /// Creates a module from a cubin, a fat binary, PTX, or CUDA C++ ([`Image`]).
    #[must_use]
    pub const fn new(image: &'static [u8]) -> Self {
        Self {
            image: Cow::Borrowed(image),
            loaded: PerContext::new(),
        }
    }

    /// Creates a module from bytes that the program generates.
    #[must_use]
    pub fn from_vec(image: Vec<u8>) -> Self {
        Self {
            image: Cow::Owned(image),
            loaded: PerContext::new(),
        }
    }

    /// Returns a kernel of a module that is stored in a `static`. A wrong name is reported when the kernel is first
    /// loaded.
    #[must_use]
    pub const fn kernel(&'static self, name: &'static str) -> Kernel {
        Kernel::of_static(self, name)
    }

    /// Returns a kernel of a module that is stored in a handler's state.
    #[must_use]
    pub fn shared_kernel(self: &Arc<Self>, name: impl Into<Cow<'static, str>>) -> Kernel {
        Kernel::of_shared(self.clone(), name.into())
    }

    /// Returns the format of the module.
    #[must_use]
    pub fn image(&self) -> Image {
        Image::of(&self.image)
    }

    /// Returns the driver's handle of the module in a context, and loads the module if necessary.
    ///
    /// Loading allocates memory. If the handler's execute stage is captured, load the module in the
    /// initialize stage.
    ///
    /// # Errors
    /// Any error of the driver, for example if the code is for a different device, and the errors of
    /// NVRTC for CUDA C++.
    pub fn load(&self, context: CudaContext) -> Result<sys::CUmodule> {
        let load = || Loaded::new(&self.image, context);
        Ok(self.loaded.get_or_make(context, load)?.module)
    }
}

/// A module that is loaded into a context.
#[derive(Debug)]
struct Loaded {
    module: sys::CUmodule,
    context: CudaContext,
}

// SAFETY: both values are handles, which the driver's functions accept on any thread.
unsafe impl Send for Loaded {}
// SAFETY: both values are handles, which the driver's functions accept on any thread.
unsafe impl Sync for Loaded {}

impl Loaded {
    fn new(image: &[u8], context: CudaContext) -> Result<Self> {
        if image.is_empty() {
            return Err(Error::failed_precondition("the module has no code"));
        }
        let compiled;
        let image = match Image::of(image) {
            Image::Source => {
                let source = std::str::from_utf8(image).map_err(|_| {
                    Error::invalid_argument(
                        "the module is neither a cubin, a fat binary, PTX nor the text of CUDA C++",
                    )
                })?;
                compiled = compile(source, context)?;
                &compiled
            }
            _ => image,
        };
        // The driver requires NUL-terminated text and aligned binary code.
        let mut aligned = vec![0_u64; image.len() / 8 + 1];
        for (word, bytes) in aligned.iter_mut().zip(image.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        let _current = context.make_current()?;
        let _relaxed = Relaxed::enter();
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is complete and NUL-terminated; the driver copies it.
        let answer = unsafe { sys::cuModuleLoadData(&raw mut module, aligned.as_ptr().cast()) };
        check("cuModuleLoadData", answer)?;
        Ok(Self { module, context })
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // When the process ends, the driver may already be shut down. Then the module need not be
        // unloaded.
        if let Ok(_current) = self.context.make_current() {
            // SAFETY: the module was loaded once and is unloaded once. XLA drops a state only after all launched work
            // has ended.
            let _ = unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}

/// Permits driver calls that a stream capture on any thread would otherwise prohibit, until dropped. This is safe,
/// because the permitted calls do not use the captured stream.
pub(super) struct Relaxed {
    before: sys::CUstreamCaptureMode,
}

impl Relaxed {
    pub(super) fn enter() -> Self {
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the call changes only the capture mode of the current thread.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) };
        Self { before: mode }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: the call restores the capture mode of the current thread.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut self.before) };
    }
}

/// Compiles `source` to a cubin for the context's device.
///
/// # Errors
/// `FAILED_PRECONDITION` if NVRTC is missing, and `INVALID_ARGUMENT` with the compiler's output if
/// compilation fails.
pub(super) fn compile(source: &str, context: CudaContext) -> Result<Vec<u8>> {
    // SAFETY: the check loads NVIDIA's library and runs its constructors.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::failed_precondition(
            "libnvrtc.so not found: the handler's library was built without nvcc, so its kernels have \
             to be compiled here; install NVRTC (it comes with CUDA and with JAX's CUDA packages) or \
             put its folder on the loader's path (LD_LIBRARY_PATH), or build the library with nvcc",
        ));
    }
    let (major, minor) = context.compute_capability()?;
    let source = CString::new(source)
        .map_err(|_| Error::invalid_argument("the kernels' source has a NUL in it"))?;
    let program = Program::new(&source)?;
    let options = [
        format!("--gpu-architecture=sm_{major}{minor}"),
        "--std=c++17".to_owned(),
    ];
    // SAFETY: this function created the program.
    let compiled = unsafe { result::compile_program(program.0, &options) };
    if let Err(error) = compiled {
        return Err(Error::invalid_argument(format!(
            "the kernels do not compile ({error:?}):\n{}",
            program.log()
        )));
    }
    program.cubin()
}

struct Program(nvrtc::nvrtcProgram);

impl Program {
    fn new(source: &CString) -> Result<Self> {
        result::create_program(source, Some(c"kernels.cu"))
            .map(Self)
            .map_err(|error| Error::internal(format!("nvrtcCreateProgram: {error:?}")))
    }

    fn log(&self) -> String {
        // SAFETY: the program is not destroyed yet.
        let log: Vec<c_char> = unsafe { result::get_program_log(self.0) }.unwrap_or_default();
        // `c_char` is signed on x86-64 and unsigned on AArch64.
        let bytes: Vec<u8> = log.iter().flat_map(|byte| byte.to_ne_bytes()).collect();
        String::from_utf8_lossy(&bytes)
            .trim_end_matches('\0')
            .to_owned()
    }

    fn cubin(&self) -> Result<Vec<u8>> {
        let failed = |error| Error::internal(format!("nvrtcGetCUBIN: {error:?}"));
        let mut size = 0;
        // SAFETY: the program is compiled, and the out-parameter points to a size.
        unsafe { nvrtc::nvrtcGetCUBINSize(self.0, &raw mut size) }
            .result()
            .map_err(failed)?;
        let mut cubin = vec![0_u8; size];
        // SAFETY: the vector has the requested size.
        unsafe { nvrtc::nvrtcGetCUBIN(self.0, cubin.as_mut_ptr().cast()) }
            .result()
            .map_err(failed)?;
        Ok(cubin)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program was created once, and `drop` destroys it once.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}
