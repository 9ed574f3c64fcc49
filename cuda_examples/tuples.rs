//! A GPU target of the original custom calls with tuples, and an adapter that makes the target a handler of XLA FFI.
//!
//! The target is a typical function of the original custom calls: its arguments are a stream, a list with an entry per
//! node of the shapes, and opaque bytes. The target writes the root of its result tuple itself.

use std::ffi::{c_char, c_void};
use xla_ffi::cuda::{Kernel, Module, Stream};
use xla_ffi::sys::XlaCustomCallStatus;
use xla_ffi::{DataType, Error, Launch, Result};
use xla_ffi_legacy::cuda::{Events, copy_addresses, resolve};
use xla_ffi_legacy::{Buffers, Descriptor, Form, Operands, Staging, set_failure};

static MODULE: Module = Module::new(include_bytes!(concat!(env!("OUT_DIR"), "/kernels.image")));
static SUM_AND_DIFFERENCE: Kernel = MODULE.kernel("sum_and_difference");

/// The pool of host memory from which the root tuples are copied.
static ROOTS: Staging<Events> = Staging::new(Events, 16);

const STRUCTURE: &str = "(_, _) -> (_, _)";

/// Computes ((x, y)) -> (x + y, x - y), all f32; `opaque` is the number of elements as a u64.
unsafe extern "C" fn target(
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const c_char,
    opaque_len: usize,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the calling convention guarantees a list with this structure, a stream and opaque bytes.
    if let Err(error) = unsafe { run(stream, buffers, opaque, opaque_len) } {
        // SAFETY: the status is valid during the current call.
        unsafe { set_failure(status, error.to_string()) };
    }
}

/// # Safety
/// The arguments must be those of a call of [`target`].
unsafe fn run(
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const c_char,
    opaque_len: usize,
) -> Result<()> {
    if opaque_len != size_of::<u64>() {
        return Err(Error::invalid_argument(format!(
            "opaque has {opaque_len} bytes, expected the 8 of a number of elements"
        )));
    }
    // SAFETY: `opaque` has eight bytes, as checked above.
    let n = unsafe { opaque.cast::<u64>().read_unaligned() };
    // SAFETY: the caller passes a list with this structure.
    let list = unsafe { Buffers::new(buffers, STRUCTURE, Form::Nodes) }?;
    if n > 0 {
        // SAFETY: the caller passes a stream that is valid during the call.
        let on = unsafe { Stream::from_raw(stream) }?;
        let (args, rets) = (list.args(), list.rets());
        // SAFETY: the stream is valid during the call, and the operand has this structure.
        let x = unsafe { resolve(stream, &args[0]) }?;
        // SAFETY: the stream is valid during the call, and the operand has this structure.
        let y = unsafe { resolve(stream, &args[1]) }?;
        let arguments = (x, y, rets[0], rets[1], n);
        let launch = Launch::over(usize::try_from(n).unwrap_or(usize::MAX), 256);
        // SAFETY: the arguments have the kernel's parameter types; each array has n elements.
        unsafe { SUM_AND_DIFFERENCE.launch(&on, launch, arguments) }?;
    }
    // SAFETY: the roots are in device memory that is valid during the call.
    unsafe { ROOTS.write(stream, list.roots()) }
}

/// Checks the sizes of the operands, which are not passed to the target, and writes the target's opaque bytes.
fn describe(operands: &Operands, opaque: &mut Descriptor) -> Result<()> {
    let x = operands.arg(0)?;
    let n = x.dims.iter().product::<usize>();
    x.expect("x", DataType::F32, n)?;
    operands.arg(1)?.expect("y", DataType::F32, n)?;
    operands.ret(0)?.expect("sum", DataType::F32, n)?;
    operands.ret(1)?.expect("difference", DataType::F32, n)?;
    opaque.push(n as u64);
    Ok(())
}

xla_ffi_legacy::adapt! {
    /// Computes x + y and x - y, on any XLA with CUDA.
    sum_and_difference = unsafe gpu_status(target),
        structure = "(_, _) -> (_, _)", describe = describe, copy = copy_addresses
}

xla_ffi::library! { name = "cuda_tuples"; sum_and_difference }
