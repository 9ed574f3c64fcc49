//! Tests asynchronous calls: only the future that the handler returns ends the recorded call, even if the handler
//! creates other futures.

mod test_host;

use std::ffi::CString;
use std::mem::{offset_of, zeroed};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use xla_ffi_record::{End, Outcome, Recorded, xla_ffi_record_start, xla_ffi_record_stop};
use xla_ffi_sys::{
    XLA_FFI_Api, XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Future_Create_Args,
    XLA_FFI_Future_SetAvailable_Args, XLA_FFI_Future_SetError_Args,
};

/// The next future of this test's host, which uses numbers instead of addresses.
static NEXT: AtomicUsize = AtomicUsize::new(0x1000);

unsafe extern "C" fn create(args: *mut XLA_FFI_Future_Create_Args) -> *mut XLA_FFI_Error {
    let future = NEXT.fetch_add(0x10, Ordering::Relaxed);
    // SAFETY: the arguments struct is complete.
    unsafe { (*args).future = ptr::without_provenance_mut(future) };
    ptr::null_mut()
}

unsafe extern "C" fn available(_: *mut XLA_FFI_Future_SetAvailable_Args) -> *mut XLA_FFI_Error {
    ptr::null_mut()
}

unsafe extern "C" fn error(_: *mut XLA_FFI_Future_SetError_Args) -> *mut XLA_FFI_Error {
    ptr::null_mut()
}

/// The host's function table, as a handler uses it.
#[derive(Clone, Copy)]
struct Host(*const XLA_FFI_Api);

// SAFETY: the table exists until the process ends.
unsafe impl Send for Host {}

impl Host {
    /// Calls the function at an index of the table. The table is read at each call, because the recorder modifies it.
    fn ask<T>(self, at: usize, args: &mut T) {
        type Function<T> = unsafe extern "C" fn(*mut T) -> *mut XLA_FFI_Error;
        let slot = self.0.wrapping_byte_add(at).cast::<Function<T>>();
        // SAFETY: the slot is inside this test's table and contains a function.
        let function = unsafe { slot.read_volatile() };
        // SAFETY: the arguments are complete, and have the type for the function.
        assert!(unsafe { function(args) }.is_null());
    }

    fn create(self) -> usize {
        // SAFETY: the struct consists of integers and pointers, for which zero bytes are valid.
        let mut args: XLA_FFI_Future_Create_Args = unsafe { zeroed() };
        self.ask(offset_of!(XLA_FFI_Api, XLA_FFI_Future_Create), &mut args);
        args.future as usize
    }

    fn available(self, future: usize) {
        // SAFETY: the struct consists of integers and pointers, for which zero bytes are valid.
        let mut args: XLA_FFI_Future_SetAvailable_Args = unsafe { zeroed() };
        args.future = ptr::without_provenance_mut(future);
        self.ask(
            offset_of!(XLA_FFI_Api, XLA_FFI_Future_SetAvailable),
            &mut args,
        );
    }

    fn error(self, future: usize) {
        // SAFETY: the struct consists of integers and pointers, for which zero bytes are valid.
        let mut args: XLA_FFI_Future_SetError_Args = unsafe { zeroed() };
        args.future = ptr::without_provenance_mut(future);
        self.ask(offset_of!(XLA_FFI_Api, XLA_FFI_Future_SetError), &mut args);
    }
}

/// The behaviours of the handler, selected by its argument.
mod does {
    /// The handler completes a helper future, then returns a different future.
    pub(crate) const HELPER: f32 = 1.0;
    /// The handler completes a helper future with an error, then returns a different future.
    pub(crate) const HELPER_FAILS: f32 = 2.0;
    /// The helper future is completed after the handler has returned.
    pub(crate) const HELPER_LATER: f32 = 3.0;
    /// The handler returns a completed future, and leaves a helper future open.
    pub(crate) const COMPLETE: f32 = 4.0;
    /// The handler returns a future that was completed with an error.
    pub(crate) const FAILED: f32 = 5.0;
    /// The handler returns a future that a different thread completes while the handler runs.
    pub(crate) const COMPLETE_ELSEWHERE: f32 = 6.0;
    /// The host reuses the number of the helper future for the returned future.
    pub(crate) const SAME_ADDRESS: f32 = 7.0;
    /// The handler completes its helper future, and returns no future.
    pub(crate) const NOTHING: f32 = 8.0;
}

/// The helper future of the previous call.
static HELPER: AtomicUsize = AtomicUsize::new(0);

/// Computes y = x + 1, and writes y before the returned future is completed.
unsafe extern "C-unwind" fn handler(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of the test host.
    let host = Host(unsafe { (*frame).api });
    // SAFETY: `frame` is a call frame of the test host.
    let (x, _, _) = unsafe { test_host::operands(frame) };
    // SAFETY: the argument has at least one element.
    let what = unsafe { x.read() };
    let helper = host.create();
    HELPER.store(helper, Ordering::Relaxed);
    if what == does::HELPER_FAILS {
        host.error(helper);
    } else if [does::HELPER, does::SAME_ADDRESS, does::NOTHING].contains(&what) {
        host.available(helper);
    }
    if what == does::NOTHING {
        // SAFETY: `frame` is a call frame of the test host.
        return unsafe { test_host::increment(frame) };
    }
    if what == does::SAME_ADDRESS {
        NEXT.store(helper, Ordering::Relaxed);
    }
    let future = host.create();
    if [does::COMPLETE, does::FAILED, does::COMPLETE_ELSEWHERE].contains(&what) {
        // SAFETY: `frame` is a call frame of the test host.
        unsafe { test_host::increment(frame) };
    }
    if what == does::COMPLETE {
        host.available(future);
    } else if what == does::FAILED {
        host.error(future);
    } else if what == does::COMPLETE_ELSEWHERE {
        std::thread::spawn(move || { host }.available(future))
            .join()
            .unwrap();
    }
    // SAFETY: the frames of the test host have the field `future`.
    unsafe { (*frame).future = ptr::without_provenance_mut(future) };
    ptr::null_mut()
}

#[test]
fn the_future_that_is_returned_ends_the_call() {
    // SAFETY: the struct consists of integers and pointers, for which zero bytes are valid.
    let mut table: XLA_FFI_Api = unsafe { zeroed() };
    table.struct_size = size_of::<XLA_FFI_Api>();
    table.XLA_FFI_Future_Create = Some(create);
    table.XLA_FFI_Future_SetAvailable = Some(available);
    table.XLA_FFI_Future_SetError = Some(error);
    let host = Host(Box::leak(Box::new(table)));
    let handler = test_host::interposed(handler, "handler", "execute=handler");
    let folder = tempfile::tempdir().unwrap();
    let path = CString::new(folder.path().to_str().unwrap()).unwrap();
    // SAFETY: both strings are NUL-terminated.
    let started = unsafe { xla_ffi_record_start(path.as_ptr(), 1 << 20, 10, c"a test".as_ptr()) };
    assert_eq!(started, 0);

    let all = [
        does::HELPER,
        does::HELPER_FAILS,
        does::HELPER_LATER,
        does::COMPLETE,
        does::FAILED,
        does::COMPLETE_ELSEWHERE,
        does::SAME_ADDRESS,
        does::NOTHING,
    ];
    for what in all {
        test_host::call(handler, host.0, &mut [what, 10.0], |future, y| {
            if what == does::HELPER_LATER {
                host.available(HELPER.load(Ordering::Relaxed));
            }
            y.copy_from_slice(&[what + 1.0, 11.0]);
            if future != 0 {
                host.available(future);
            }
        });
    }
    let counts = xla_ffi_record_stop(1000);
    assert_eq!((counts.recorded, counts.open), (all.len() as u64, 0));

    let mut files: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for (what, file) in all.into_iter().zip(files) {
        let read = Recorded::read(&file).unwrap();
        let End { outcome, later } = read.end.unwrap();
        assert_eq!(later, what != does::NOTHING, "{what}");
        if what == does::FAILED {
            assert!(matches!(outcome, Outcome::Error { .. }), "{what}");
            continue;
        }
        assert_eq!(outcome, Outcome::Done, "{what}");
        let bytes: Vec<_> = [what + 1.0, 11.0_f32].map(f32::to_le_bytes).concat();
        assert_eq!(read.rets[0].as_ref(), Some(&bytes), "{what}");
    }
}
