//! Tests with hosts from before r0: jaxlib 0.4.29 and 0.4.30, TensorFlow 2.17.
//!
//! Libraries in every language refuse registration and calls with an error that names these hosts, and never read past
//! the end of the function table.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use xla_ffi_sys::*;
use xla_ffi_testing::{rust_examples, skip};

/// Offsets of the functions in a table from before r0.
const ERROR_CREATE: usize = Revision::BEFORE_R0_TABLE_HEAD;
const ERROR_TEXT: usize = ERROR_CREATE + 8;
const ERROR_DESTROY: usize = ERROR_CREATE + 16;
const SIZE: usize = Revision::BEFORE_R0_STRUCT_SIZE;

/// The number of the execute stage in hosts from before r0.
const EXECUTE: u32 = 2;

const REFUSAL: [&str; 3] = [
    "before its first revision",
    "0.4.29, 0.4.30 and TensorFlow 2.17",
    "jaxlib 0.4.31",
];

/// The code and message of an error of the emulated host.
struct Told(XLA_FFI_Error_Code, String);

unsafe extern "C" fn create(args: *mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error {
    // SAFETY: libraries pass valid arguments for this function.
    let args = unsafe { &*args };
    assert_eq!(args.struct_size, XLA_FFI_Error_Create_Args::STRUCT_SIZE);
    // SAFETY: libraries pass a C string.
    let text = unsafe { CStr::from_ptr(args.message) };
    let told = Told(args.errc, text.to_string_lossy().into_owned());
    Box::into_raw(Box::new(told)).cast()
}

/// Returns the message, which the emulated host keeps until the next call.
unsafe extern "C" fn text(args: *mut XLA_FFI_Error_GetDetails_Args) {
    // SAFETY: libraries pass valid arguments for this function.
    let args = unsafe { &mut *args };
    // SAFETY: `create` allocated the error, and it is not destroyed yet.
    let told = unsafe { &*args.error.cast::<Told>() };
    TEXT.with_borrow_mut(|kept| {
        *kept = CString::new(told.1.clone()).unwrap();
        args.message = kept.as_ptr();
    });
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

unsafe extern "C" fn destroy(args: *mut XLA_FFI_Error_Destroy_Args) {
    // SAFETY: libraries pass valid arguments for this function.
    drop(told(unsafe { (*args).error }));
}

/// The function in all other slots of the table. Libraries must not call this function.
unsafe extern "C" fn never(_: *mut c_void) -> *mut c_void {
    eprintln!("a function of the table was called");
    std::process::abort();
}

/// Returns a table of `size` bytes, directly followed by unreadable memory.
fn table(size: usize) -> *const XLA_FFI_Api {
    // SAFETY: sysconf has no preconditions.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let read_write = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: this maps new memory at an address that the system chooses.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 2 * page, read_write, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    let second = at.cast::<u8>().wrapping_add(page);
    // SAFETY: the second page of that mapping is not in use.
    let closed = unsafe { libc::mprotect(second.cast(), page, libc::PROT_NONE) };
    assert_eq!(closed, 0);
    let table = second.wrapping_sub(size);
    for at in (0..size).step_by(8) {
        let word = match at {
            0 => size,
            8 => 0,
            // In later revisions, this field is a version. In these hosts, the field is a pointer to their own memory.
            16 => table as usize,
            ERROR_CREATE if size == SIZE => create as *const () as usize,
            ERROR_TEXT if size == SIZE => text as *const () as usize,
            ERROR_DESTROY if size == SIZE => destroy as *const () as usize,
            _ => never as *const () as usize,
        };
        let place = table.wrapping_add(at).cast::<usize>();
        // SAFETY: the place is in the first page, at a multiple of 8.
        unsafe { place.write(word) };
    }
    table.cast()
}

fn told(error: *mut XLA_FFI_Error) -> Option<Told> {
    if error.is_null() {
        return None;
    }
    // SAFETY: `create` allocated the error, and the caller passes it only once.
    Some(*unsafe { Box::from_raw(error.cast::<Told>()) })
}

type Register = unsafe extern "C" fn(*const XLA_FFI_Api, *const c_char) -> *mut XLA_FFI_Error;
type Handler = unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

fn refused(what: &str, error: *mut XLA_FFI_Error, name: &str) {
    let Told(code, text) = told(error).unwrap_or_else(|| panic!("{what}: no error"));
    assert_eq!(code, XLA_FFI_Error_Code::UNIMPLEMENTED, "{what}: {text}");
    assert!(
        text.starts_with(&format!("{name}: this host")),
        "{what}: {text}"
    );
    for words in REFUSAL {
        assert!(text.contains(words), "{what}: {words:?} is not in {text}");
    }
}

/// Checks that the library refuses registration, and that its handler `scale` refuses a call.
fn check(language: &str, path: &Path, name: &str) {
    // SAFETY: the library is ours; its initializers have no preconditions.
    let library = unsafe { libloading::Library::new(path) }.expect("the library loads");
    // SAFETY: libraries export the function with this type.
    let register = unsafe { library.get::<Register>(b"xla_ffi_register") }.unwrap();
    let cpu = CString::new("Host").unwrap();
    let api = table(SIZE);
    // SAFETY: the table is valid for such a host.
    let error = unsafe { register(api, cpu.as_ptr()) };
    refused(&format!("{language}, registration"), error, name);
    // A table of unknown size has no known functions, so the refusal cannot create an error.
    // SAFETY: libraries only read the size of such a table.
    let error = unsafe { register(table(SIZE - 8), cpu.as_ptr()) };
    assert!(error.is_null(), "{language}");

    // SAFETY: handlers are exported with this type.
    let scale = unsafe { library.get::<Handler>(b"scale") }.unwrap();
    // SAFETY: the frame is plain data; all zeros is a frame without operands.
    let mut frame: XLA_FFI_CallFrame = unsafe { std::mem::zeroed() };
    frame.struct_size = XLA_FFI_CallFrame::STRUCT_SIZE;
    frame.args.struct_size = XLA_FFI_Args::STRUCT_SIZE;
    frame.rets.struct_size = XLA_FFI_Rets::STRUCT_SIZE;
    frame.attrs.struct_size = XLA_FFI_Attrs::STRUCT_SIZE;
    frame.api = api;
    frame.stage = XLA_FFI_ExecutionStage(EXECUTE);
    // SAFETY: the frame is valid, as such hosts create it.
    let error = unsafe { scale(&raw mut frame) };
    refused(&format!("{language}, a call"), error, "scale");

    std::mem::forget(library);
}

#[test]
fn rust() {
    check(
        "Rust",
        &rust_examples().join("libconformance.so"),
        "conformance",
    );
}

/// Returns the library of a C or C++ example. Without a compiler, reports a skip and returns `None`.
fn example(test: &str, name: &str, compiler: Option<&str>) -> Option<PathBuf> {
    if compiler.is_none() {
        skip(test, "no compiler");
        return None;
    }
    Some(Path::new(env!("C_EXAMPLES_DIR")).join(name))
}

#[test]
fn c() {
    if let Some(path) = example(
        "before_r0.c",
        "libconformance.so",
        option_env!("C_COMPILER"),
    ) {
        check("C", &path, "conformance_c.scale");
    }
}

#[test]
fn cpp() {
    let name = "libconformance_cpp.so";
    if let Some(path) = example("before_r0.cpp", name, option_env!("CPP_COMPILER")) {
        check("C++", &path, "conformance_c.scale");
    }
}
