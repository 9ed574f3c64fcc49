//! Helper functions for handlers of the tests, which use the ABI directly, and for building libraries with handlers.
//! If a library cannot be built, its test counts as skipped.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use xla_ffi_sys::{
    XLA_FFI_Api, XLA_FFI_Buffer, XLA_FFI_CallFrame, XLA_FFI_DeviceMemory_Allocate_Args,
    XLA_FFI_Error, XLA_FFI_Error_Code, XLA_FFI_Error_Create_Args, XLA_FFI_Future,
    XLA_FFI_Future_Create_Args, XLA_FFI_Metadata_Extension, XLA_FFI_Stream_Get_Args,
};
use xla_ffi_testing::compiler::shared_library;

/// Compiles `source` to a shared library for the tests of this package.
pub(crate) fn build(test: &str, source: &Path, name: &str, flags: &[String]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    shared_library(&folder, test, source, name, flags)
}

/// Returns the path of a source file in the folder `cxx`.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// Answers a metadata query with version 0.`minor` and these traits. Returns false if the call is not a metadata
/// query.
///
/// # Safety
/// `frame` must be a call frame of a host.
pub(crate) unsafe fn metadata(frame: *mut XLA_FFI_CallFrame, minor: i32, traits: u32) -> bool {
    // SAFETY: `frame` is a call frame of a host.
    let extension = unsafe { (*frame).extension_start };
    if extension.is_null() {
        return false;
    }
    // SAFETY: hosts pass no extension other than the metadata extension.
    let metadata = unsafe { (*extension.cast::<XLA_FFI_Metadata_Extension>()).metadata };
    // SAFETY: the host's metadata is writable.
    unsafe { (*metadata).api_version.major_version = 0 };
    // SAFETY: the host's metadata is writable.
    unsafe { (*metadata).api_version.minor_version = minor };
    // SAFETY: the host's metadata is writable.
    unsafe { (*metadata).traits = traits };
    true
}

/// Returns the function in a slot of the host's function table.
///
/// # Safety
/// `frame` must be a call frame of a host, and `F` must be the type of the slot's function.
pub(crate) unsafe fn slot<F: Copy>(frame: *mut XLA_FFI_CallFrame, index: usize) -> F {
    // SAFETY: `frame` is a call frame of a host.
    let api: *const XLA_FFI_Api = unsafe { (*frame).api };
    let word = api.cast::<usize>().wrapping_add(6 + index);
    assert_eq!(size_of::<F>(), size_of::<usize>());
    // SAFETY: guaranteed by the caller.
    unsafe { word.cast::<F>().read() }
}

pub(crate) type Function<A> = unsafe extern "C" fn(*mut A) -> *mut XLA_FFI_Error;

/// Returns a new error with this code and message.
///
/// # Safety
/// `frame` must be a call frame of a host and contain a function table.
pub(crate) unsafe fn error(
    frame: *mut XLA_FFI_CallFrame,
    code: u32,
    text: &std::ffi::CStr,
) -> *mut XLA_FFI_Error {
    // SAFETY: the function in slot 0 has this type.
    let create: Function<XLA_FFI_Error_Create_Args> = unsafe { slot(frame, 0) };
    let mut args = XLA_FFI_Error_Create_Args {
        struct_size: 28,
        extension_start: std::ptr::null_mut(),
        message: text.as_ptr(),
        errc: XLA_FFI_Error_Code(code),
    };
    // SAFETY: the arguments struct is complete.
    unsafe { create(&raw mut args) }
}

/// Returns the data pointer of an argument.
///
/// # Safety
/// `frame` must be a call frame of a host and have this argument.
pub(crate) unsafe fn arg(frame: *mut XLA_FFI_CallFrame, index: usize) -> *mut c_void {
    // SAFETY: `frame` is a call frame of a host.
    let list = unsafe { (*frame).args.args };
    // SAFETY: guaranteed by the caller.
    unsafe { data(list, index) }
}

/// Returns the data pointer of a result.
///
/// # Safety
/// `frame` must be a call frame of a host and have this result.
pub(crate) unsafe fn ret(frame: *mut XLA_FFI_CallFrame, index: usize) -> *mut c_void {
    // SAFETY: `frame` is a call frame of a host.
    let list = unsafe { (*frame).rets.rets };
    // SAFETY: guaranteed by the caller.
    unsafe { data(list, index) }
}

unsafe fn data(list: *mut *mut c_void, index: usize) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    let buffer = unsafe { list.wrapping_add(index).read() }.cast::<XLA_FFI_Buffer>();
    // SAFETY: the operands are buffers.
    unsafe { (*buffer).data }
}

/// Returns a new future of the host.
///
/// # Safety
/// `frame` must be a call frame of a host of r3 or later.
pub(crate) unsafe fn future(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Future {
    // SAFETY: the function in slot 13 has this type.
    let create: Function<XLA_FFI_Future_Create_Args> = unsafe { slot(frame, 13) };
    let mut args = XLA_FFI_Future_Create_Args {
        struct_size: 16,
        extension_start: std::ptr::null_mut(),
        future: std::ptr::null_mut(),
    };
    // SAFETY: the arguments struct is complete.
    assert!(unsafe { create(&raw mut args) }.is_null());
    args.future
}

/// Allocates eight bytes of scratch memory, aligned to eight bytes, or returns the host's error.
///
/// # Safety
/// `frame` must be a call frame of a host.
pub(crate) unsafe fn allocate(
    frame: *mut XLA_FFI_CallFrame,
) -> Result<*mut c_void, *mut XLA_FFI_Error> {
    // SAFETY: the function in slot 9 has this type.
    let allocate: Function<XLA_FFI_DeviceMemory_Allocate_Args> = unsafe { slot(frame, 9) };
    let mut args = XLA_FFI_DeviceMemory_Allocate_Args {
        struct_size: XLA_FFI_DeviceMemory_Allocate_Args::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        // SAFETY: `frame` is a call frame of a host.
        ctx: unsafe { (*frame).ctx },
        size: 8,
        alignment: 8,
        data: std::ptr::null_mut(),
    };
    // SAFETY: the arguments struct is complete.
    let error = unsafe { allocate(&raw mut args) };
    if error.is_null() {
        Ok(args.data)
    } else {
        Err(error)
    }
}

/// Returns memory for a number at a multiple of `alignment`. The memory is never freed.
pub(crate) fn memory(alignment: usize) -> *mut i64 {
    let layout = std::alloc::Layout::from_size_align(8, alignment).unwrap();
    // SAFETY: the size of the layout is not 0.
    let data: *mut i64 = unsafe { std::alloc::alloc_zeroed(layout) }.cast();
    assert!(!data.is_null());
    data
}

/// Returns the stream of a call, or the host's error.
///
/// # Safety
/// `frame` must be a call frame of a host.
pub(crate) unsafe fn stream(
    frame: *mut XLA_FFI_CallFrame,
) -> std::result::Result<*mut c_void, *mut XLA_FFI_Error> {
    // SAFETY: the function in slot 4 has this type.
    let get: Function<XLA_FFI_Stream_Get_Args> = unsafe { slot(frame, 4) };
    let mut args = XLA_FFI_Stream_Get_Args {
        struct_size: 32,
        extension_start: std::ptr::null_mut(),
        // SAFETY: `frame` is a call frame of a host.
        ctx: unsafe { (*frame).ctx },
        stream: std::ptr::null_mut(),
    };
    // SAFETY: the arguments struct is complete.
    let failed = unsafe { get(&raw mut args) };
    if failed.is_null() {
        Ok(args.stream)
    } else {
        Err(failed)
    }
}

/// The rejected arguments of table functions, in the order of `cxx/rules.c`, with the error codes of jaxlib 0.12.0 on
/// CPU.
pub(crate) const MEASURED: &[(&str, i64)] = &[
    ("register a type", 0),
    ("get state before it is set", 5),
    ("set state of type 0", 13),
    ("set state of an unknown type", 13),
    ("set state with 47 bytes", 3),
    ("set state", 0),
    ("set state twice", 9),
    ("get state", 0),
    ("get the state of the execute stage", 0),
    ("register a second type", 0),
    ("get state of another type", 3),
    ("register a name again", 13),
    ("register a name again with its number", 0),
    ("register a name again with another number", 13),
    ("register another name with that number", 0),
    ("run id in instantiate", 0),
    ("device ordinal in instantiate", 0),
    ("the ordinal", -1),
    ("threads in instantiate", 12),
    ("empty lists are null", 1),
    ("stream", 12),
    ("stream with 31 bytes", 3),
    ("allocate", 3),
    ("allocate with alignment 3", 3),
    ("free", 12),
    ("register a third type", 0),
    ("user data that there is not", 5),
    ("user data of type 0", 5),
    ("set instantiate's state in execute", 9),
    ("find an extension", 0),
    ("there is none", 1),
    ("custom options", 0),
    ("how many", 0),
    ("run id with 31 bytes", 3),
    ("schedule", 0),
    ("make a future", 0),
    ("fail a future with null", 3),
    ("make an error that says OK", 1),
    ("fail a future with it", 3),
    ("an error with the code 99", 2),
    ("complete the future", 0),
    ("register without execute", 3),
    ("register a handler", 0),
    ("register it again", 0),
    ("register it with other traits", 3),
    ("register another handler under its name", 3),
    ("register another handler under its name and \"cpu\"", 3),
    ("register one that does not answer", 3),
];
