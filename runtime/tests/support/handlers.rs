//! Handlers of this program, written straight on the ABI.

use std::ffi::c_void;
use xla_ffi_sys::{
    XLA_FFI_Api, XLA_FFI_Buffer, XLA_FFI_CallFrame, XLA_FFI_DeviceMemory_Allocate_Args,
    XLA_FFI_Error, XLA_FFI_Error_Code, XLA_FFI_Error_Create_Args, XLA_FFI_Future,
    XLA_FFI_Future_Create_Args, XLA_FFI_Metadata_Extension, XLA_FFI_Stream_Get_Args,
};

/// Answers the metadata call with version 0.`minor` and these traits; whether it was one.
///
/// # Safety
/// The frame is a host's.
pub(crate) unsafe fn metadata(frame: *mut XLA_FFI_CallFrame, minor: i32, traits: u32) -> bool {
    // SAFETY: the frame is a host's.
    let extension = unsafe { (*frame).extension_start };
    if extension.is_null() {
        return false;
    }
    // SAFETY: the only extension that hosts send is the metadata's.
    let metadata = unsafe { (*extension.cast::<XLA_FFI_Metadata_Extension>()).metadata };
    // SAFETY: the host's metadata is writable.
    unsafe { (*metadata).api_version.major_version = 0 };
    // SAFETY: as above.
    unsafe { (*metadata).api_version.minor_version = minor };
    // SAFETY: as above.
    unsafe { (*metadata).traits = traits };
    true
}

/// The function in a slot of the frame's table.
///
/// # Safety
/// The frame is a host's, `F` is the type of the slot's function.
pub(crate) unsafe fn slot<F: Copy>(frame: *mut XLA_FFI_CallFrame, index: usize) -> F {
    // SAFETY: the frame is a host's.
    let api: *const XLA_FFI_Api = unsafe { (*frame).api };
    let word = api.cast::<usize>().wrapping_add(6 + index);
    assert_eq!(size_of::<F>(), size_of::<usize>());
    // SAFETY: as promised by the caller.
    unsafe { word.cast::<F>().read() }
}

pub(crate) type Function<A> = unsafe extern "C" fn(*mut A) -> *mut XLA_FFI_Error;

/// An error of this text.
///
/// # Safety
/// The frame is a host's, with its table.
pub(crate) unsafe fn error(
    frame: *mut XLA_FFI_CallFrame,
    code: u32,
    text: &std::ffi::CStr,
) -> *mut XLA_FFI_Error {
    // SAFETY: slot 0 makes errors.
    let create: Function<XLA_FFI_Error_Create_Args> = unsafe { slot(frame, 0) };
    let mut args = XLA_FFI_Error_Create_Args {
        struct_size: 28,
        extension_start: std::ptr::null_mut(),
        message: text.as_ptr(),
        errc: XLA_FFI_Error_Code(code),
    };
    // SAFETY: the arguments are whole.
    unsafe { create(&raw mut args) }
}

/// The data of an argument.
///
/// # Safety
/// The frame is a host's and has the argument.
pub(crate) unsafe fn arg(frame: *mut XLA_FFI_CallFrame, index: usize) -> *mut c_void {
    // SAFETY: the frame is a host's.
    let list = unsafe { (*frame).args.args };
    // SAFETY: as promised by the caller.
    unsafe { data(list, index) }
}

/// The data of a result.
///
/// # Safety
/// The frame is a host's and has the result.
pub(crate) unsafe fn ret(frame: *mut XLA_FFI_CallFrame, index: usize) -> *mut c_void {
    // SAFETY: the frame is a host's.
    let list = unsafe { (*frame).rets.rets };
    // SAFETY: as promised by the caller.
    unsafe { data(list, index) }
}

unsafe fn data(list: *mut *mut c_void, index: usize) -> *mut c_void {
    // SAFETY: as promised by the caller.
    let buffer = unsafe { list.wrapping_add(index).read() }.cast::<XLA_FFI_Buffer>();
    // SAFETY: operands are buffers.
    unsafe { (*buffer).data }
}

/// A future of the host.
///
/// # Safety
/// The frame is a host's of r3 or later.
pub(crate) unsafe fn future(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Future {
    // SAFETY: slot 13 makes futures.
    let create: Function<XLA_FFI_Future_Create_Args> = unsafe { slot(frame, 13) };
    let mut args = XLA_FFI_Future_Create_Args {
        struct_size: 16,
        extension_start: std::ptr::null_mut(),
        future: std::ptr::null_mut(),
    };
    // SAFETY: the arguments are whole.
    assert!(unsafe { create(&raw mut args) }.is_null());
    args.future
}

/// Scratch memory of eight bytes, aligned to as many, or the host's error.
///
/// # Safety
/// The frame is a host's.
pub(crate) unsafe fn allocate(
    frame: *mut XLA_FFI_CallFrame,
) -> Result<*mut c_void, *mut XLA_FFI_Error> {
    // SAFETY: slot 9 allocates.
    let allocate: Function<XLA_FFI_DeviceMemory_Allocate_Args> = unsafe { slot(frame, 9) };
    let mut args = XLA_FFI_DeviceMemory_Allocate_Args {
        struct_size: XLA_FFI_DeviceMemory_Allocate_Args::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        // SAFETY: the frame is a host's.
        ctx: unsafe { (*frame).ctx },
        size: 8,
        alignment: 8,
        data: std::ptr::null_mut(),
    };
    // SAFETY: the arguments are whole.
    let error = unsafe { allocate(&raw mut args) };
    if error.is_null() {
        Ok(args.data)
    } else {
        Err(error)
    }
}

/// A number in memory at a multiple of `alignment`, which nobody gives back.
pub(crate) fn memory(alignment: usize) -> *mut i64 {
    let layout = std::alloc::Layout::from_size_align(8, alignment).unwrap();
    // SAFETY: the layout has a size.
    let data: *mut i64 = unsafe { std::alloc::alloc_zeroed(layout) }.cast();
    assert!(!data.is_null());
    data
}

/// The stream of a call, or the host's error.
///
/// # Safety
/// The frame is a host's.
pub(crate) unsafe fn stream(
    frame: *mut XLA_FFI_CallFrame,
) -> std::result::Result<*mut c_void, *mut XLA_FFI_Error> {
    // SAFETY: slot 4 gives the stream.
    let get: Function<XLA_FFI_Stream_Get_Args> = unsafe { slot(frame, 4) };
    let mut args = XLA_FFI_Stream_Get_Args {
        struct_size: 32,
        extension_start: std::ptr::null_mut(),
        // SAFETY: the frame is a host's.
        ctx: unsafe { (*frame).ctx },
        stream: std::ptr::null_mut(),
    };
    // SAFETY: the arguments are whole.
    let failed = unsafe { get(&raw mut args) };
    if failed.is_null() {
        Ok(args.stream)
    } else {
        Err(failed)
    }
}
