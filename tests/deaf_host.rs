//! A host that takes no errors cannot be told that a call failed: handlers in C and C++ are not called there, those of
//! host memory alone included, which look at a host's functions once. Rust's are called: their error is told on stderr.

use std::ffi::c_void;
use std::ptr;
use xla_ffi_sys::*;
use xla_ffi_testing::compiler::{compiler, library_of_text};

const C: &str = r#"
#include "xla_ffi/handler.h"
static int calls;
int count(void) { return calls; }
static XLA_FFI_Error* seen(xffi_call* call) {
  XLA_FFI_Error* error;
  xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  if ((error = xffi_decoded(call)) != NULL) return error;
  ++calls;
  return NULL;
}
XFFI_HANDLER(anywhere, seen);
XFFI_HOST_HANDLER(on_host, seen);
"#;

const CPP: &str = r#"
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static int calls;
extern "C" int count() { return calls; }
static ffi::Error Seen(ffi::Buffer<ffi::F32> x) { ++calls; return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(anywhere, Seen, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(on_host, Seen, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().HostOnly());
"#;

type Entry = unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

unsafe extern "C" fn error_create(_: *mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error {
    ptr::without_provenance_mut(1)
}

/// A host's table, of which nothing but this is there. Handlers keep the addresses of tables: it stays.
fn table(takes_errors: bool) -> &'static XLA_FFI_Api {
    // SAFETY: the table is numbers, pointers and optional functions.
    let mut api: XLA_FFI_Api = unsafe { std::mem::zeroed() };
    api.struct_size = size_of::<XLA_FFI_Api>();
    api.XLA_FFI_Error_Create = takes_errors.then_some(error_create);
    Box::leak(Box::new(api))
}

/// Calls a handler with one argument.
fn call(entry: Entry, api: &XLA_FFI_Api) -> *mut XLA_FFI_Error {
    let (mut data, mut dims) = ([1.0_f32], [1_i64]);
    // SAFETY: numbers and pointers.
    let mut buffer: XLA_FFI_Buffer = unsafe { std::mem::zeroed() };
    buffer.struct_size = XLA_FFI_Buffer::STRUCT_SIZE;
    buffer.dtype = XLA_FFI_DataType::F32;
    buffer.data = data.as_mut_ptr().cast();
    buffer.rank = 1;
    buffer.dims = dims.as_mut_ptr();
    let mut types = [XLA_FFI_ArgType::BUFFER];
    let mut args: [*mut c_void; 1] = [(&raw mut buffer).cast()];
    // SAFETY: numbers and pointers.
    let mut frame: XLA_FFI_CallFrame = unsafe { std::mem::zeroed() };
    frame.struct_size = XLA_FFI_CallFrame::STRUCT_SIZE;
    frame.api = api;
    frame.stage = XLA_FFI_ExecutionStage::EXECUTE;
    frame.args.struct_size = XLA_FFI_Args::STRUCT_SIZE;
    frame.args.size = 1;
    frame.args.types = types.as_mut_ptr();
    frame.args.args = args.as_mut_ptr();
    frame.rets.struct_size = XLA_FFI_Rets::STRUCT_SIZE;
    frame.attrs.struct_size = XLA_FFI_Attrs::STRUCT_SIZE;
    // SAFETY: what the frame points to is there.
    unsafe { entry(&raw mut frame) }
}

#[test]
fn a_host_without_errors_calls_nobody() {
    for (is_cpp, text) in [(false, C), (true, CPP)] {
        let Some(program) = compiler(is_cpp, "a_host_without_errors_calls_nobody") else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let program = program.to_str().expect("a compiler's name");
        let path = library_of_text(folder.path(), "deaf", program, text, &[]).unwrap();
        // SAFETY: made above.
        let library = unsafe { libloading::Library::new(path) }.expect("it loads");
        // SAFETY: as declared above.
        let count = *unsafe { library.get::<unsafe extern "C" fn() -> i32>(b"count") }.unwrap();
        // Two of each: of hosts that are known the first is found another way.
        let tables = [false, true, false, true, true].map(|takes| (takes, table(takes)));
        let mut calls = 0;
        for symbol in ["anywhere", "on_host"] {
            // SAFETY: a handler.
            let entry = *unsafe { library.get::<Entry>(symbol.as_bytes()) }.unwrap();
            for _ in 0..2 {
                for (takes, api) in tables {
                    assert!(call(entry, api).is_null(), "{program}, {symbol}");
                    calls += i32::from(takes);
                    // SAFETY: reads a number.
                    assert_eq!(unsafe { count() }, calls, "{program}, {symbol}, {takes}");
                }
            }
        }
    }
}
