//! Tests of programs that fork. In the child process, work that needs threads of the parent must fail and must not
//! hang.

mod support;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{Function, metadata, slot};
use xla_ffi_runtime::{Attributes, Bundle, CpuStream, DeviceStream, ErrorCode, Handler, Runtime};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_ThreadPool_Schedule_Args};

/// Runs `work` in a fork and returns its result. If the fork hangs, a signal ends it and the result is false.
fn in_fork(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only runs `work` and exits. It uses no lock that other tests may hold.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the alarm ends only the child process.
        unsafe { libc::alarm(20) };
        let went_well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: `_exit` ends the child without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!went_well.unwrap_or(false))) };
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

fn is_refused<T>(outcome: xla_ffi_runtime::Result<T>) -> bool {
    outcome.is_err_and(|error| error.code() == ErrorCode::FailedPrecondition)
}

static RAN: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn task(_: *mut c_void) {
    RAN.store(true, Ordering::Release);
}

/// A handler that schedules a task on the thread pool and waits for it.
unsafe extern "C" fn pool(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if unsafe { metadata(frame, 3, 0) } {
        return std::ptr::null_mut();
    }
    RAN.store(false, Ordering::Release);
    // SAFETY: the function in slot 11 has this type.
    let schedule: Function<XLA_FFI_ThreadPool_Schedule_Args> = unsafe { slot(frame, 11) };
    let mut args = XLA_FFI_ThreadPool_Schedule_Args {
        struct_size: 40,
        extension_start: std::ptr::null_mut(),
        // SAFETY: `frame` is a call frame of a host.
        ctx: unsafe { (*frame).ctx },
        task: Some(task),
        data: std::ptr::null_mut(),
    };
    // SAFETY: the arguments struct is complete.
    let failed = unsafe { schedule(&raw mut args) };
    while failed.is_null() && !RAN.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
    failed
}

fn handler(
    runtime: &Runtime,
    function: unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error,
) -> Handler {
    // SAFETY: the callers pass handlers.
    let bundle = unsafe { Bundle::execute(function) };
    runtime.handler("forked", bundle).unwrap()
}

#[test]
fn threads_of_the_parent_are_refused_in_a_fork() {
    let runtime = Runtime::default();
    let executable = handler(&runtime, pool)
        .instantiate(&Attributes::new())
        .unwrap();
    let stream = CpuStream::new().unwrap();
    // At this point, the thread pool has not started any threads.
    assert!(in_fork(|| executable.call().run().is_ok()));
    executable.call().run().unwrap();
    assert!(in_fork(|| {
        is_refused(executable.call().run())
            && is_refused(stream.try_enqueue(Box::new(|| {})))
            && is_refused(stream.synchronize())
    }));
    executable.call().run().unwrap();
}
