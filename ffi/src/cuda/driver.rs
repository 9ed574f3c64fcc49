//! Loading of the CUDA driver, and conversion of its errors.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use crate::error::{Error, ErrorCode, Result};
use cudarc::driver::sys;
use cudarc::driver::sys::CUresult;

/// Loads and initializes the driver, once per process.
///
/// # Errors
/// `FAILED_PRECONDITION` if there is no driver or the driver fails to initialize.
#[inline]
pub(super) fn ready() -> Result<()> {
    static READY: OnceLock<Result<()>> = OnceLock::new();
    READY.get_or_init(start).clone()
}

#[cold]
fn start() -> Result<()> {
    // SAFETY: the check loads the driver's library and runs NVIDIA's constructors.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::failed_precondition(
            "libcuda.so.1 not found: this machine has no NVIDIA driver, or its folder is not on the \
             loader's path (LD_LIBRARY_PATH); a handler that is registered for platform \"CUDA\" needs \
             it",
        ));
    }
    // SAFETY: the driver is loaded, and `cuInit` may be called repeatedly.
    let started = unsafe { sys::cuInit(0) };
    check("cuInit", started)
}

/// Converts a status code of the driver to a `Result`. Any result other than `CUDA_SUCCESS` becomes
/// an error that names the driver function `call`.
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
    // SAFETY: the out-parameter points to a pointer.
    let known = unsafe { ask(result, &raw mut text) };
    if known != CUresult::CUDA_SUCCESS || text.is_null() {
        return "an error that the driver has no words for".into();
    }
    // SAFETY: the driver's texts are C strings that are never freed.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
