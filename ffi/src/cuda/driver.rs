//! The driver: whether there is one, and its errors.

use std::ffi::{CStr, CString, c_char};
use std::sync::OnceLock;

use super::context::CudaContext;
use crate::error::{Error, ErrorCode, Result};
use cudarc::driver::sys;
use cudarc::driver::sys::CUresult;
use cudarc::nvrtc::{result, sys as nvrtc};

/// Loads the driver and starts it, once a process.
///
/// # Errors
/// `FAILED_PRECONDITION` where there is no driver, or it does not start.
#[inline]
pub(super) fn ready() -> Result<()> {
    static READY: OnceLock<Result<()>> = OnceLock::new();
    READY.get_or_init(start).clone()
}

#[cold]
fn start() -> Result<()> {
    // SAFETY: loads the driver's library, whose constructors are NVIDIA's.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::failed_precondition(
            "libcuda.so.1 not found: this machine has no NVIDIA driver, or its folder is not on the \
             loader's path (LD_LIBRARY_PATH); a handler that is registered for platform \"CUDA\" needs \
             it",
        ));
    }
    // SAFETY: the driver is there; starting it twice does no harm.
    let started = unsafe { sys::cuInit(0) };
    check("cuInit", started)
}

/// `CUDA_SUCCESS` is success; anything else becomes an error that names the call.
#[inline]
pub fn check(call: &str, result: CUresult) -> Result<()> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    Err(explain(call, result))
}

#[cold]
fn explain(call: &str, result: CUresult) -> Error {
    use CUresult::{
        CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NOT_FOUND,
        CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
    };
    let code = match result {
        CUDA_ERROR_OUT_OF_MEMORY => ErrorCode::ResourceExhausted,
        CUDA_ERROR_INVALID_VALUE => ErrorCode::InvalidArgument,
        CUDA_ERROR_NOT_FOUND => ErrorCode::NotFound,
        CUDA_ERROR_NO_DEVICE
        | CUDA_ERROR_NO_BINARY_FOR_GPU
        | CUDA_ERROR_INVALID_PTX
        | CUDA_ERROR_INVALID_IMAGE
        | CUDA_ERROR_UNSUPPORTED_PTX_VERSION => ErrorCode::FailedPrecondition,
        _ => ErrorCode::Internal,
    };
    let hint = match result {
        CUDA_ERROR_NO_BINARY_FOR_GPU => {
            "; the kernels were built for other devices: build PTX for an older one too"
        }
        CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
            "; the kernels' PTX is newer than this driver: build it with an older CUDA, or a cubin"
        }
        _ => "",
    };
    let name = text(result, sys::cuGetErrorName);
    let what = text(result, sys::cuGetErrorString);
    let number = result as u32;
    Error::new(code, format!("{call}: {name} ({number}): {what}{hint}"))
}

fn text(result: CUresult, ask: unsafe fn(CUresult, *mut *const c_char) -> CUresult) -> String {
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: the out-parameter takes a pointer.
    let known = unsafe { ask(result, &raw mut text) };
    if known != CUresult::CUDA_SUCCESS || text.is_null() {
        return "an error that the driver has no words for".into();
    }
    // SAFETY: the driver's texts are constants.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// The cubin of `source` for the context's device.
///
/// # Errors
/// `FAILED_PRECONDITION` where NVRTC is not there; `INVALID_ARGUMENT` with the compiler's words.
pub(super) fn compile(source: &str, context: CudaContext) -> Result<Vec<u8>> {
    // SAFETY: loads NVIDIA's library.
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
    // SAFETY: a program that was just made.
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
        // SAFETY: a program that lives.
        let log: Vec<c_char> = unsafe { result::get_program_log(self.0) }.unwrap_or_default();
        // A C character is signed on x86-64 and unsigned on AArch64.
        let bytes: Vec<u8> = log.iter().flat_map(|byte| byte.to_ne_bytes()).collect();
        String::from_utf8_lossy(&bytes)
            .trim_end_matches('\0')
            .to_owned()
    }

    fn cubin(&self) -> Result<Vec<u8>> {
        let failed = |error| Error::internal(format!("nvrtcGetCUBIN: {error:?}"));
        let mut size = 0;
        // SAFETY: a compiled program; the out-parameter takes a size.
        unsafe { nvrtc::nvrtcGetCUBINSize(self.0, &raw mut size) }
            .result()
            .map_err(failed)?;
        let mut cubin = vec![0_u8; size];
        // SAFETY: there is room for so many bytes.
        unsafe { nvrtc::nvrtcGetCUBIN(self.0, cubin.as_mut_ptr().cast()) }
            .result()
            .map_err(failed)?;
        Ok(cubin)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made once, dropped once.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}
