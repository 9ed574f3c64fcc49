//! A minimal host. It calls handlers through their trampolines, with one argument and one result of f32 elements.

use std::ffi::{CString, c_void};
use std::ptr;
use xla_ffi_record::xla_ffi_record_interpose;
use xla_ffi_sys::{
    XLA_FFI_Api, XLA_FFI_ArgType, XLA_FFI_AttrType, XLA_FFI_Buffer, XLA_FFI_ByteSpan,
    XLA_FFI_CallFrame, XLA_FFI_DataType, XLA_FFI_Error, XLA_FFI_ExecutionStage, XLA_FFI_Scalar,
};

pub(crate) type Handler = unsafe extern "C-unwind" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

/// Returns the addresses of the argument and the result of a call, and their number of elements.
///
/// # Safety
/// `frame` must be a call frame of [`call`].
pub(crate) unsafe fn operands(frame: *mut XLA_FFI_CallFrame) -> (*mut f32, *mut f32, usize) {
    let buffer = |list: *mut *mut c_void| {
        // SAFETY: the frames of `call` have one argument and one result.
        let buffer = unsafe { list.read() }.cast::<XLA_FFI_Buffer>();
        // SAFETY: the entry of the list is a buffer.
        unsafe { buffer.read() }
    };
    // SAFETY: the caller upholds this function's safety contract.
    let x = buffer(unsafe { (*frame).args.args });
    // SAFETY: the caller upholds this function's safety contract.
    let y = buffer(unsafe { (*frame).rets.rets });
    // SAFETY: the buffers have one dimension.
    let count = unsafe { x.dims.read() };
    (x.data.cast(), y.data.cast(), count as usize)
}

/// Computes y = x + 1 for all elements.
pub(crate) unsafe extern "C-unwind" fn increment(
    frame: *mut XLA_FFI_CallFrame,
) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of [`call`].
    let (x, y, count) = unsafe { operands(frame) };
    for index in 0..count {
        // SAFETY: the index is less than the number of elements.
        let value = unsafe { x.wrapping_add(index).read() };
        // SAFETY: the index is less than the number of elements.
        unsafe { y.wrapping_add(index).write(value + 1.0) };
    }
    ptr::null_mut()
}

/// Returns the trampoline for a handler's function.
pub(crate) fn interposed(function: Handler, name: &str, stages: &str) -> Handler {
    let text = |text: &str| CString::new(text).unwrap();
    let (library, name, stages) = (text("/a/libtoy.so"), text(name), text(stages));
    let function = function as *mut c_void;
    // SAFETY: the function is a handler, and the strings are NUL-terminated.
    let before = unsafe {
        xla_ffi_record_interpose(library.as_ptr(), name.as_ptr(), stages.as_ptr(), function)
    };
    assert!(!before.is_null() && before != function);
    // SAFETY: the returned function has the type of a handler.
    unsafe { std::mem::transmute::<*mut c_void, Handler>(before) }
}

/// Calls a handler from a host with the function table `api`, which may be null. The result is initialised with
/// zeros. `returned` receives the future that the handler returned, and the result.
pub(crate) fn call(
    function: Handler,
    api: *const XLA_FFI_Api,
    x: &mut [f32],
    returned: impl FnOnce(usize, &mut [f32]),
) -> Vec<f32> {
    let (mut y, mut dims, mut factor) = (vec![0.0_f32; x.len()], [x.len() as i64], 2.5_f64);
    let mut buffer = |data: *mut f32| XLA_FFI_Buffer {
        struct_size: XLA_FFI_Buffer::STRUCT_SIZE,
        extension_start: ptr::null_mut(),
        dtype: XLA_FFI_DataType::F32,
        data: data.cast(),
        rank: 1,
        dims: dims.as_mut_ptr(),
    };
    let (mut arg, mut ret) = (buffer(x.as_mut_ptr()), buffer(y.as_mut_ptr()));
    let mut args = [(&raw mut arg).cast::<c_void>()];
    let mut rets = [(&raw mut ret).cast::<c_void>()];
    let mut kinds = [XLA_FFI_ArgType::BUFFER];
    let mut scalar = XLA_FFI_Scalar {
        dtype: XLA_FFI_DataType::F64,
        value: (&raw mut factor).cast(),
    };
    let mut span = XLA_FFI_ByteSpan {
        ptr: c"factor".as_ptr(),
        len: 6,
    };
    let (mut names, mut types) = ([&raw mut span], [XLA_FFI_AttrType::SCALAR]);
    let mut values = [(&raw mut scalar).cast::<c_void>()];
    // SAFETY: the struct consists of integers and pointers, for which zero bytes are valid.
    let mut frame: XLA_FFI_CallFrame = unsafe { std::mem::zeroed() };
    frame.struct_size = XLA_FFI_CallFrame::STRUCT_SIZE;
    frame.api = api;
    frame.stage = XLA_FFI_ExecutionStage::EXECUTE;
    (frame.args.size, frame.rets.size, frame.attrs.size) = (1, 1, 1);
    frame.args.args = args.as_mut_ptr();
    frame.args.types = kinds.as_mut_ptr();
    frame.rets.rets = rets.as_mut_ptr();
    (frame.attrs.names, frame.attrs.types) = (names.as_mut_ptr(), types.as_mut_ptr());
    frame.attrs.attrs = values.as_mut_ptr();
    // SAFETY: the call frame is complete.
    assert!(unsafe { function(&raw mut frame) }.is_null());
    returned(frame.future as usize, &mut y);
    y
}
