//! Many threads call shared handlers at once, for a bounded time; nothing is mixed up or left over.

mod support;

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::handlers::{Function, arg, error, metadata, ret, slot};
use xla_ffi_runtime::{
    Attributes, Bundle, Call, Code, DType, Executable, Hazard, PreparedCall, Revision, Runtime,
    Shape, Tensor, living_objects,
};
use xla_ffi_sys::{
    XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Future_Create_Args, XLA_FFI_Future_SetAvailable_Args,
    XLA_FFI_Handler, XLA_FFI_InvokeContext, XLA_FFI_RunId_Get_Args,
    XLA_FFI_ThreadPool_Schedule_Args,
};

/// y = x + run id, or an error for negative x.
unsafe extern "C" fn add_run_id(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the frame has one argument.
    let x = unsafe { arg(frame, 0) }.cast::<i64>();
    // SAFETY: the frame has one result.
    let y = unsafe { ret(frame, 0) }.cast::<i64>();
    // SAFETY: slot 16 gives the run id.
    let run_id: Function<XLA_FFI_RunId_Get_Args> = unsafe { slot(frame, 16) };
    let mut args = XLA_FFI_RunId_Get_Args {
        struct_size: 32,
        extension_start: std::ptr::null_mut(),
        // SAFETY: the frame is a host's.
        ctx: unsafe { (*frame).ctx },
        run_id: 0,
    };
    // SAFETY: the arguments are whole.
    let failed = unsafe { run_id(&raw mut args) };
    if !failed.is_null() {
        return failed;
    }
    // SAFETY: one i64 each.
    let x = unsafe { x.read() };
    if x < 0 {
        // SAFETY: the frame is a host's.
        return unsafe { error(frame, 11, c"x is negative") };
    }
    // SAFETY: one i64 each.
    unsafe { y.write(x + args.run_id) };
    std::ptr::null_mut()
}

/// What a pool task of `doubled_later` needs.
struct Later {
    x: *const i64,
    y: *mut i64,
    future: *mut xla_ffi_sys::XLA_FFI_Future,
    complete: Function<XLA_FFI_Future_SetAvailable_Args>,
}

unsafe extern "C" fn finish(later: *mut c_void) {
    // SAFETY: made below, run once.
    let later = unsafe { Box::from_raw(later.cast::<Later>()) };
    // SAFETY: the operands live until the future is complete.
    let x = unsafe { later.x.read() };
    // SAFETY: as above.
    unsafe { later.y.write(2 * x) };
    let mut args = XLA_FFI_Future_SetAvailable_Args {
        struct_size: 24,
        extension_start: std::ptr::null_mut(),
        future: later.future,
    };
    // SAFETY: the arguments are whole.
    assert!(unsafe { (later.complete)(&raw mut args) }.is_null());
}

/// y = 2 x, written by a pool task after the call has returned.
unsafe extern "C" fn doubled_later(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: slot 13 makes futures.
    let create: Function<XLA_FFI_Future_Create_Args> = unsafe { slot(frame, 13) };
    let mut made = XLA_FFI_Future_Create_Args {
        struct_size: 16,
        extension_start: std::ptr::null_mut(),
        future: std::ptr::null_mut(),
    };
    // SAFETY: the arguments are whole.
    let failed = unsafe { create(&raw mut made) };
    if !failed.is_null() {
        return failed;
    }
    let later = Box::new(Later {
        // SAFETY: the frame has one argument.
        x: unsafe { arg(frame, 0) }.cast(),
        // SAFETY: the frame has one result.
        y: unsafe { ret(frame, 0) }.cast(),
        future: made.future,
        // SAFETY: slot 14 completes futures.
        complete: unsafe { slot(frame, 14) },
    });
    // SAFETY: slot 11 schedules tasks.
    let schedule: Function<XLA_FFI_ThreadPool_Schedule_Args> = unsafe { slot(frame, 11) };
    let mut args = XLA_FFI_ThreadPool_Schedule_Args {
        struct_size: 40,
        extension_start: std::ptr::null_mut(),
        // SAFETY: the frame is a host's.
        ctx: unsafe { (*frame).ctx },
        task: Some(finish),
        data: Box::into_raw(later).cast(),
    };
    // SAFETY: the arguments are whole.
    let failed = unsafe { schedule(&raw mut args) };
    // SAFETY: the frame is a host's, of a revision that has futures.
    unsafe { (*frame).future = made.future };
    failed
}

fn executable(runtime: &Runtime, name: &str, handler: XLA_FFI_Handler) -> Executable {
    // SAFETY: the functions above are handlers.
    let bundle = unsafe { Bundle::execute(handler) };
    runtime
        .handler(name, bundle)
        .unwrap()
        .instantiate(&Attributes::new())
        .unwrap()
}

fn call(executable: &Executable, x: i64) -> Call {
    executable
        .call()
        .arg(Tensor::from_slice([1], &[x]).unwrap())
        .ret(Shape::new(DType::S64, [1]).unwrap())
}

fn value(call: &PreparedCall) -> i64 {
    i64::from_ne_bytes(call.ret_bytes(0).unwrap().try_into().unwrap())
}

#[test]
fn threads_share_handlers_and_nothing_is_left() {
    let runtime = Runtime::new(Revision::NEWEST);
    let now = executable(&runtime, "add_run_id", add_run_id);
    let later = executable(&runtime, "doubled_later", doubled_later);
    let end = Instant::now() + Duration::from_secs(3);
    let calls = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..32_i64 {
            let (now, later, calls) = (&now, &later, &calls);
            scope.spawn(move || {
                let mut kept = call(now, thread).run_id(1000).prepare().unwrap();
                let mut kept_later = call(later, thread).prepare().unwrap();
                for round in 0.. {
                    kept.invoke().unwrap();
                    assert_eq!(value(&kept), thread + 1000);
                    kept_later.invoke().unwrap();
                    assert_eq!(value(&kept_later), 2 * thread);
                    let outcome = call(now, round).run_id(thread).run().unwrap();
                    assert_eq!(outcome.rets[0].to_vec::<i64>().unwrap(), [round + thread]);
                    let error = call(now, -1).run().unwrap_err();
                    assert_eq!(error.code(), Code::OutOfRange);
                    calls.fetch_add(4, Ordering::Relaxed);
                    if Instant::now() >= end {
                        break;
                    }
                }
            });
        }
    });
    println!("{} calls", calls.load(Ordering::Relaxed));
    assert!(calls.load(Ordering::Relaxed) >= 32 * 4);
    assert_eq!(living_objects(), (0, 0));
}

/// A chain of calls within calls, as deep as the first argument says.
unsafe extern "C" fn nests(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the frame has one argument.
    let depth = unsafe { arg(frame, 0) }.cast::<i64>();
    // SAFETY: one i64.
    let depth = unsafe { depth.read() };
    if depth > 0 {
        let inner = Runtime::new(Revision::ALL[depth as usize % 11]);
        call(&executable(&inner, "nests", nests), depth - 1)
            .run()
            .unwrap();
    }
    // SAFETY: the frame has one result.
    let y = unsafe { ret(frame, 0) }.cast::<i64>();
    // SAFETY: one i64.
    unsafe { y.write(depth) };
    std::ptr::null_mut()
}

#[test]
fn calls_nest() {
    // A thousand calls in each other take more stack than a test's thread has.
    let deep = std::thread::Builder::new().stack_size(64 << 20);
    let nested = deep.spawn(|| {
        let runtime = Runtime::default();
        call(&executable(&runtime, "nests", nests), 1000)
            .run()
            .unwrap()
    });
    let outcome = nested.unwrap().join().unwrap();
    assert_eq!(outcome.rets[0].to_vec::<i64>().unwrap(), [1000]);
}

/// Keeps its context and uses it in the next call.
unsafe extern "C" fn keeps_context(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    static KEPT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    // SAFETY: the frame is a host's.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the frame is a host's.
    let ctx = unsafe { (*frame).ctx };
    let kept = KEPT.swap(ctx as usize, Ordering::Relaxed);
    if kept == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: slot 16 gives the run id.
    let run_id: Function<XLA_FFI_RunId_Get_Args> = unsafe { slot(frame, 16) };
    let mut args = XLA_FFI_RunId_Get_Args {
        struct_size: 32,
        extension_start: std::ptr::null_mut(),
        ctx: kept as *mut XLA_FFI_InvokeContext,
        run_id: 0,
    };
    // SAFETY: the arguments are whole.
    unsafe { run_id(&raw mut args) }
}

#[test]
fn a_context_ends_with_its_call() {
    let runtime = Runtime::default();
    let executable = executable(&runtime, "keeps_context", keeps_context);
    let mut first = call(&executable, 0).prepare().unwrap();
    first.invoke().unwrap();
    // The first call's context is still there, but no longer a call's.
    let error = call(&executable, 0)
        .prepare()
        .unwrap()
        .invoke()
        .unwrap_err();
    assert!(error.message().contains("ended with its call"), "{error}");
    assert!(
        first
            .invoke()
            .is_err_and(|error| error.has(Hazard::ContextAfterCall))
    );
}
