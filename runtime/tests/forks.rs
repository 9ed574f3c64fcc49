//! A program that forks: what the parent's threads would have to do is refused in the child, and nothing hangs.

mod support;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use support::handlers::{Function, error, future, metadata, slot};
use xla_ffi_runtime::{Attributes, Bundle, Code, CpuStream, DeviceStream, Handler, Runtime};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_ThreadPool_Schedule_Args};

/// Runs it in a fork, which a signal ends if it hangs; whether it said yes.
fn in_fork(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `work` and ends; nothing that other tests hold is used in it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child alone.
        unsafe { libc::alarm(20) };
        let went_well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!went_well.unwrap_or(false))) };
    }
    let mut status = 0;
    // SAFETY: a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

/// Whether it is refused with words for it.
fn is_elsewhere<T>(outcome: xla_ffi_runtime::Result<T>) -> bool {
    let Err(error) = outcome else { return false };
    let fits = error.code() == Code::FailedPrecondition && error.message().contains("is a fork");
    if !fits {
        eprintln!("{error}");
    }
    fits
}

static RAN: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn task(_: *mut c_void) {
    RAN.store(true, Ordering::Release);
}

/// Waits for a task of the pool.
unsafe extern "C" fn pool(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    if unsafe { metadata(frame, 3, 0) } {
        return std::ptr::null_mut();
    }
    RAN.store(false, Ordering::Release);
    // SAFETY: slot 11 gives the pool work.
    let schedule: Function<XLA_FFI_ThreadPool_Schedule_Args> = unsafe { slot(frame, 11) };
    let mut args = XLA_FFI_ThreadPool_Schedule_Args {
        struct_size: 40,
        extension_start: std::ptr::null_mut(),
        // SAFETY: the frame is a host's.
        ctx: unsafe { (*frame).ctx },
        task: Some(task),
        data: std::ptr::null_mut(),
    };
    // SAFETY: the arguments are whole.
    let failed = unsafe { schedule(&raw mut args) };
    while failed.is_null() && !RAN.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
    failed
}

/// Leaves its future open for ever.
unsafe extern "C" fn open(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    if unsafe { metadata(frame, 3, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the frame is a host's of r10.
    let future = unsafe { future(frame) };
    // SAFETY: the frame of r10 has the field.
    unsafe { (*frame).future = future };
    std::ptr::null_mut()
}

fn handler(
    runtime: &Runtime,
    function: unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error,
) -> Handler {
    // SAFETY: these are handlers.
    let bundle = unsafe { Bundle::execute(function) };
    runtime.handler("forked", bundle).unwrap()
}

#[test]
fn tasks_run_in_a_pool_of_the_child() {
    let runtime = Runtime::default();
    let executable = handler(&runtime, pool)
        .instantiate(&Attributes::new())
        .unwrap();
    executable.call().run().unwrap();
    assert!(in_fork(|| {
        executable.call().run().unwrap();
        executable.call().run().unwrap();
        let own = Runtime::default();
        let other = handler(&own, pool).instantiate(&Attributes::new());
        other.unwrap().call().run().unwrap();
        own.shutdown(Duration::from_secs(5)).is_ok() && runtime.wait_for_calls(None).is_ok()
    }));
    executable.call().run().unwrap();
}

#[test]
fn a_call_that_is_open_in_the_parent_is_not_waited_for() {
    let runtime = Runtime::default();
    let executable = handler(&runtime, open)
        .instantiate(&Attributes::new())
        .unwrap();
    let mut call = executable.call().prepare().unwrap();
    assert!(!call.start().unwrap());
    assert!(in_fork(|| {
        is_elsewhere(call.wait())
            && is_elsewhere(call.wait_for(None))
            && is_elsewhere(runtime.wait_for_calls(None))
            && is_elsewhere(runtime.shutdown(Duration::from_secs(60)))
    }));
    let waited = call.wait_for(Some(Duration::from_millis(1)));
    assert_eq!(waited.unwrap_err().code(), Code::DeadlineExceeded);
}

#[test]
fn a_stream_is_in_the_process_that_made_it() {
    let stream = CpuStream::new().unwrap();
    assert!(in_fork(|| {
        let refused = is_elsewhere(stream.try_enqueue(Box::new(|| {})));
        stream.enqueue(Box::new(|| {}));
        let own = CpuStream::new().unwrap();
        own.enqueue(Box::new(|| {}));
        // By every way to it: nothing is lost in silence.
        let refused = refused && is_elsewhere(stream.stream().enqueue(|| {}));
        refused && is_elsewhere(stream.synchronize()) && own.synchronize().is_ok()
    }));
    stream.synchronize().unwrap();
}

/// Always an error, so that the table of errors is in use.
unsafe extern "C" fn fails(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    if unsafe { metadata(frame, 3, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: as above; 5 is NOT_FOUND.
    unsafe { error(frame, 5, c"no") }
}

/// A runtime, a call that fails, and a stream.
fn everything() -> bool {
    let own = Runtime::default();
    let failed = handler(&own, fails).instantiate(&Attributes::new());
    let error = failed.unwrap().call().run().unwrap_err();
    let stream = CpuStream::new().unwrap();
    let found = CpuStream::from_handle(stream.handle()).is_some();
    found && error.code() == Code::NotFound && stream.synchronize().is_ok()
}

/// Whatever the parent's threads hold while it forks.
#[test]
fn what_a_child_makes_is_as_everywhere_while_the_parent_is_at_work() {
    assert!(everything());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    everything();
                }
            });
        }
        let all = (0..400).all(|_| in_fork(everything));
        stop.store(true, Ordering::Relaxed);
        assert!(all);
    });
}
