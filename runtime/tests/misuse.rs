//! Tests of mistakes of handlers. Each handler makes one mistake, which the runtime reports before it continues.

mod support;

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{Function, error, future, metadata, ret, slot};
use xla_ffi_runtime::{
    Attributes, Bundle, Call, DType, Error, ErrorCode, Hazard, Revision, Runtime, Shape, Stage,
    Tensor, TypeInfo,
};
use xla_ffi_sys::{
    XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_ExecutionStage, XLA_FFI_Future_SetAvailable_Args,
    XLA_FFI_Handler, XLA_FFI_InvokeContext, XLA_FFI_Metadata_Extension, XLA_FFI_RunId_Get_Args,
    XLA_FFI_State_Set_Args, XLA_FFI_ThreadPool_Schedule_Args, XLA_FFI_TypeId,
};

fn call_on(runtime: &Runtime, handler: XLA_FFI_Handler) -> Call {
    // SAFETY: the handlers in this file are handlers of the ABI.
    let bundle = unsafe { Bundle::execute(handler) };
    let handler = runtime.handler("misuse", bundle).unwrap();
    handler.instantiate(&Attributes::new()).unwrap().call()
}

/// Runs a handler with a one-byte result on a new runtime of the revision.
fn run_on(revision: Revision, handler: XLA_FFI_Handler) -> Result<(), Error> {
    let call = call_on(&Runtime::new(revision), handler);
    let mut call = call.ret(Shape::new(DType::U8, [1]).unwrap()).prepare()?;
    call.invoke()?;
    call.into_rets().map(drop)
}

fn hazard_on(revision: Revision, handler: XLA_FFI_Handler) -> Hazard {
    run_on(revision, handler).unwrap_err().findings()[0].hazard
}

/// Completes a future successfully.
///
/// # Safety
/// `frame` must be a call frame of a host of r3 or later.
unsafe fn complete(
    frame: *mut XLA_FFI_CallFrame,
    future: *mut xla_ffi_sys::XLA_FFI_Future,
) -> *mut XLA_FFI_Error {
    // SAFETY: the function in slot 14 has this type.
    let complete: Function<XLA_FFI_Future_SetAvailable_Args> = unsafe { slot(frame, 14) };
    let mut args = XLA_FFI_Future_SetAvailable_Args {
        struct_size: 24,
        extension_start: std::ptr::null_mut(),
        future,
    };
    // SAFETY: the arguments struct is complete.
    unsafe { complete(&raw mut args) }
}

/// Defines a handler that answers the metadata query. In all other calls, it runs its body.
macro_rules! handler {
    ($name:ident, $frame:ident => $body:expr) => {
        unsafe extern "C" fn $name($frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
            // SAFETY: `$frame` is a call frame of a host.
            if unsafe { metadata($frame, 1, 0) } {
                return std::ptr::null_mut();
            }
            $body
        }
    };
}

handler!(error_and_future, frame => {
    // SAFETY: `frame` is a call frame of a host of r10.
    let made = unsafe { future(frame) };
    // SAFETY: frames of r10 have the field `future`.
    unsafe { (*frame).future = made };
    // SAFETY: `frame` is a call frame of a host.
    unsafe { error(frame, 5, c"and a future") }
});

handler!(completes_twice, frame => {
    // SAFETY: `frame` is a call frame of a host of r10.
    let made = unsafe { future(frame) };
    // SAFETY: frames of r10 have the field `future`.
    unsafe { (*frame).future = made };
    // SAFETY: `frame` is a call frame of a host of r10.
    assert!(unsafe { complete(frame, made) }.is_null());
    // SAFETY: `frame` is a call frame of a host of r10.
    assert!(!unsafe { complete(frame, made) }.is_null());
    std::ptr::null_mut()
});

handler!(stray_future, frame => {
    // SAFETY: frames of r10 have the field `future`.
    unsafe { (*frame).future = 0x1230 as *mut _ };
    std::ptr::null_mut()
});

handler!(stray_error, frame => {
    assert!(!frame.is_null());
    0x1230 as *mut _
});

handler!(writes_future, frame => {
    // SAFETY: frames of r0 and r1 lack this field; the embedded runtime has a guard at its offset.
    unsafe { (*frame).future = 0x1230 as *mut _ };
    std::ptr::null_mut()
});

handler!(writes_past_its_result, frame => {
    // SAFETY: the call has one result.
    let y = unsafe { ret(frame, 0) }.cast::<u8>();
    // SAFETY: the embedded runtime has a guard after the result.
    unsafe { y.wrapping_add(3).write(1) };
    std::ptr::null_mut()
});

unsafe extern "C" fn writes_state_type(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if unsafe { metadata(frame, 1, 0) } {
        // SAFETY: the call is a metadata query, so the first extension is the metadata extension.
        let extension = unsafe { (*frame).extension_start }.cast::<XLA_FFI_Metadata_Extension>();
        // SAFETY: the call is a metadata query, so the extension contains metadata.
        let metadata = unsafe { (*extension).metadata };
        // SAFETY: metadata before r6 lacks this field; the embedded runtime has a guard at its offset.
        unsafe { (*metadata).state_type_id.type_id = 0 };
    }
    std::ptr::null_mut()
}

extern "C-unwind" fn panics(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if !unsafe { metadata(frame, 1, 0) } {
        panic!("on purpose");
    }
    std::ptr::null_mut()
}

/// Converts a function that may unwind to the type of handlers, which does not allow unwinding.
fn unwinding(
    handler: extern "C-unwind" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error,
) -> XLA_FFI_Handler {
    // SAFETY: the types differ only in whether unwinding is allowed, not in the calling convention.
    unsafe { std::mem::transmute(handler) }
}

extern "C-unwind" fn panicking_task(_data: *mut c_void) {
    std::panic::resume_unwind(Box::new("in the pool"));
}

handler!(schedules_a_panic, frame => {
    // SAFETY: the function in slot 11 has this type.
    let schedule: Function<XLA_FFI_ThreadPool_Schedule_Args> = unsafe { slot(frame, 11) };
    let task: extern "C-unwind" fn(*mut c_void) = panicking_task;
    // SAFETY: the types differ only in whether unwinding is allowed, not in the calling convention.
    let task = unsafe {
        std::mem::transmute::<
            extern "C-unwind" fn(*mut c_void),
            unsafe extern "C" fn(*mut c_void),
        >(task)
    };
    let mut args = XLA_FFI_ThreadPool_Schedule_Args {
        struct_size: 40,
        extension_start: std::ptr::null_mut(),
        // SAFETY: `frame` is a call frame of a host.
        ctx: unsafe { (*frame).ctx },
        task: Some(task),
        data: std::ptr::null_mut(),
    };
    // SAFETY: the arguments struct is complete.
    unsafe { schedule(&raw mut args) }
});

handler!(says_ok, frame => {
    // SAFETY: `frame` is a call frame of a host.
    unsafe { error(frame, 0, c"all is well") }
});

#[test]
fn each_is_told_for_what_it_is() {
    let newest = Revision::NEWEST;
    let both = run_on(newest, error_and_future).unwrap_err();
    assert!(both.has(Hazard::ErrorAndFuture) && both.is_from_handler());
    assert_eq!(
        (both.code(), both.message()),
        (ErrorCode::NotFound, "and a future")
    );
    assert_eq!(hazard_on(newest, completes_twice), Hazard::FutureMisuse);
    assert_eq!(hazard_on(newest, stray_future), Hazard::FutureMisuse);
    assert_eq!(hazard_on(newest, stray_error), Hazard::ErrorMisuse);
    assert_eq!(
        hazard_on(newest, writes_past_its_result),
        Hazard::BufferOverrun
    );
    assert_eq!(hazard_on(newest, unwinding(panics)), Hazard::Unwound);
    for revision in [Revision::R0, Revision::R1] {
        assert_eq!(hazard_on(revision, writes_future), Hazard::FrameOverrun);
    }
    // As in XLA, an error object with the code OK is success.
    assert!(run_on(newest, says_ok).is_ok());
}

#[test]
fn writing_the_state_type_is_a_hazard_before_r6() {
    for revision in Revision::ALL.into_iter().skip(1) {
        // SAFETY: the function is a handler.
        let bundle = unsafe { Bundle::execute(writes_state_type) };
        match Runtime::new(revision).handler("misuse", bundle) {
            Ok(_) => assert!(revision >= Revision::R6, "{revision}"),
            Err(error) => {
                assert!(
                    revision < Revision::R6 && error.has(Hazard::MetadataOverrun),
                    "{error}"
                );
            }
        }
    }
}

// A handler that sets the state of the prepare stage during a later stage.
handler!(sets_what_is_past, frame => {
    // SAFETY: the function in slot 7 has this type.
    let set: Function<XLA_FFI_State_Set_Args> = unsafe { slot(frame, 7) };
    let mut id = XLA_FFI_TypeId { type_id: STATE.load(Ordering::SeqCst) };
    let mut args = XLA_FFI_State_Set_Args {
        struct_size: XLA_FFI_State_Set_Args::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        // SAFETY: `frame` is a call frame of a host.
        ctx: unsafe { (*frame).ctx },
        stage: XLA_FFI_ExecutionStage(Stage::Prepare as u32),
        type_id: &raw mut id,
        state: std::ptr::dangling_mut::<u64>().cast(),
    };
    // SAFETY: the arguments struct is complete.
    unsafe { set(&raw mut args) }
});

static STATE: AtomicI64 = AtomicI64::new(0);

#[test]
fn a_stage_that_is_over_gets_no_state() {
    let runtime = Runtime::default();
    unsafe extern "C" fn keep(_object: *mut c_void) {}
    let info = TypeInfo::new(Some(keep));
    // SAFETY: only this test uses the type name.
    let id = unsafe { runtime.register_type("past", 0, info) }.unwrap();
    STATE.store(id, Ordering::SeqCst);
    let mut call = call_on(&runtime, sets_what_is_past).prepare().unwrap();
    // The first call must not affect the second call, which must fail in the same way.
    for _ in 0..2 {
        let error = call.invoke().unwrap_err();
        assert!(error.has(Hazard::AbsentState), "{error}");
        assert!(
            error.message().contains("the prepare stage is over"),
            "{error}"
        );
    }
}

#[test]
fn a_panic_in_the_pool_ends_its_task_alone_and_is_kept_once() {
    let runtime = Runtime::with_threads(Revision::R10, 2);
    let mut call = call_on(&runtime, schedules_a_panic).prepare().unwrap();
    for _ in 0..10 {
        call.invoke().unwrap();
    }
    let limit = Instant::now() + Duration::from_secs(20);
    let mut found = runtime.take_findings();
    while found.is_empty() {
        assert!(Instant::now() < limit, "a panic that nobody notes");
        std::thread::sleep(Duration::from_millis(1));
        found = runtime.take_findings();
    }
    assert!(
        found.iter().all(|found| found.hazard == Hazard::Unwound),
        "{found:?}"
    );
}

static LATE: AtomicUsize = AtomicUsize::new(0);

// A handler that returns a future that is never completed. A different thread writes the result after a delay.
handler!(writes_late, frame => {
    // SAFETY: `frame` is a call frame of a host of r10.
    let made = unsafe { future(frame) };
    // SAFETY: the call has one result.
    let y = unsafe { ret(frame, 0) } as usize;
    LATE.store(y, Ordering::SeqCst);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        // SAFETY: the operands are never freed, because the future is never completed.
        unsafe { (y as *mut u8).write_volatile(47) };
    });
    // SAFETY: frames of r10 have the field `future`.
    unsafe { (*frame).future = made };
    std::ptr::null_mut()
});

#[test]
fn operands_of_an_open_execution_are_never_freed() {
    let shape = || Shape::new(DType::U8, [1]).unwrap();
    let call = call_on(&Runtime::default(), writes_late).ret(shape());
    let limit = Some(Duration::from_millis(20));
    let error = call.time_limit(limit).run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
    // If the memory were freed, these tensors would reuse and clear it.
    let others: Vec<_> = (0..1000).map(|_| Tensor::zeros(shape()).unwrap()).collect();
    let y = LATE.load(Ordering::SeqCst) as *const u8;
    let end = Instant::now() + Duration::from_secs(20);
    // SAFETY: the operands are never freed.
    while unsafe { y.read_volatile() } != 47 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: the operands are never freed.
    assert_eq!(unsafe { y.read_volatile() }, 47);
    assert!(others.iter().all(|other| other.bytes() == [0]));
}

static SHARED: AtomicUsize = AtomicUsize::new(0);

// A handler that creates a future in its first call and returns this future in every call.
handler!(shares_its_future, frame => {
    if SHARED.load(Ordering::SeqCst) == 0 {
        // SAFETY: `frame` is a call frame of a host of r10.
        SHARED.store(unsafe { future(frame) } as usize, Ordering::SeqCst);
    }
    // SAFETY: frames of r10 have the field `future`.
    unsafe { (*frame).future = SHARED.load(Ordering::SeqCst) as *mut _ };
    std::ptr::null_mut()
});

#[test]
fn a_future_of_two_calls_is_told() {
    let runtime = Runtime::default();
    let call = || call_on(&runtime, shares_its_future).prepare().unwrap();
    let (mut first, mut second) = (call(), call());
    assert!(!first.start().unwrap());
    let error = second.start().unwrap_err();
    assert_eq!(error.findings()[0].hazard, Hazard::FutureMisuse, "{error}");
    assert!(error.message().contains("earlier call"), "{error}");
    // The thread that completes the future may also use the operands of the second call.
    assert!(second.is_open());
}

// A handler that stores its context. In the next call, it requests the run id from the stored context.
handler!(keeps_context, frame => {
    static KEPT: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: `frame` is a call frame of a host.
    let kept = KEPT.swap(unsafe { (*frame).ctx } as usize, Ordering::SeqCst);
    if kept == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: the function in slot 16 has this type.
    let run_id: Function<XLA_FFI_RunId_Get_Args> = unsafe { slot(frame, 16) };
    let mut args = XLA_FFI_RunId_Get_Args {
        struct_size: 32,
        extension_start: std::ptr::null_mut(),
        ctx: kept as *mut XLA_FFI_InvokeContext,
        run_id: 0,
    };
    // SAFETY: the arguments struct is complete.
    unsafe { run_id(&raw mut args) }
});

#[test]
fn a_context_ends_with_its_call() {
    let runtime = Runtime::default();
    let mut first = call_on(&runtime, keeps_context).prepare().unwrap();
    first.invoke().unwrap();
    // The memory of the first context still exists, but its call has ended.
    let error = call_on(&runtime, keeps_context).run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::FailedPrecondition);
    let error = first.invoke().unwrap_err();
    assert!(error.has(Hazard::ContextAfterCall), "{error}");
}

#[test]
fn missing_stages_are_told() {
    let runtime = Runtime::default();
    // SAFETY: the function is a handler.
    let bundle = unsafe { Bundle::default().with(Stage::Prepare, says_ok) };
    let error = runtime.handler("misuse", bundle).unwrap_err();
    assert!(error.message().contains("no execute stage"), "{error}");
}
