//! CUDA C++, compiled at run time for the device at hand.

use std::ffi::{CString, c_char};

use super::context::CudaContext;
use crate::error::{Error, Result};
use cudarc::nvrtc::{result, sys};

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

struct Program(sys::nvrtcProgram);

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
        unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut size) }
            .result()
            .map_err(failed)?;
        let mut cubin = vec![0_u8; size];
        // SAFETY: there is room for so many bytes.
        unsafe { sys::nvrtcGetCUBIN(self.0, cubin.as_mut_ptr().cast()) }
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
