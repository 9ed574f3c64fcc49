//! Tests of futures that handlers leave open in invalid ways: together with an error, without being returned, or in a
//! stage without futures. The operands may be in use until the future is completed.

mod support;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Function, allocate, error, future, memory, metadata, ret, slot};
use xla_ffi_runtime::{
    Attributes, Bundle, Call, CallFrame, Canceller, DType, DeviceAllocator, ErrorCode, Executable,
    Hazard, Recorder, Revision, Runtime, Shape, Stage, TypeInfo,
};
use xla_ffi_sys::{
    XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Future_SetAvailable_Args, XLA_FFI_Handler,
    XLA_FFI_InvokeContext_Get_Args, XLA_FFI_TypeId,
};

const WRITTEN: i64 = 7;

/// Creates a future and starts a thread. The thread writes to the result and to scratch memory, and then completes
/// the future. If `returned` is true, the future is returned in the frame.
unsafe fn later(frame: *mut XLA_FFI_CallFrame, returned: bool) {
    // SAFETY: `frame` is a call frame of a host.
    let scratch = unsafe { allocate(frame) }.expect("there is memory");
    // SAFETY: `frame` is a call frame of a host of r10.
    let future = unsafe { future(frame) };
    if returned {
        // SAFETY: frames of r10 have the field `future`.
        unsafe { (*frame).future = future };
    }
    // SAFETY: the call has one result.
    let places = [unsafe { ret(frame, 0) } as usize, scratch as usize];
    // SAFETY: the function in slot 14 has this type.
    let complete: Function<XLA_FFI_Future_SetAvailable_Args> = unsafe { slot(frame, 14) };
    let future = future as usize;
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        for place in places {
            // SAFETY: the host keeps results and scratch memory until the future is complete.
            unsafe { (place as *mut i64).write_volatile(WRITTEN) };
        }
        let mut args = XLA_FFI_Future_SetAvailable_Args {
            struct_size: 24,
            extension_start: std::ptr::null_mut(),
            future: future as *mut _,
        };
        // SAFETY: the arguments struct is complete.
        assert!(unsafe { complete(&raw mut args) }.is_null());
    });
}

macro_rules! handler {
    ($name:ident, $frame:ident => $body:expr) => {
        unsafe extern "C" fn $name($frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
            // SAFETY: `$frame` is a call frame of a host.
            if unsafe { metadata($frame, 5, 0) } {
                return std::ptr::null_mut();
            }
            $body
        }
    };
}

handler!(beside_an_error, frame => {
    // SAFETY: `frame` is a host's call frame, and the call has one result.
    unsafe { later(frame, true) };
    // SAFETY: `frame` is a call frame of a host.
    unsafe { error(frame, 9, c"as it was told to") }
});

handler!(kept_back, frame => {
    // SAFETY: `frame` is a host's call frame, and the call has one result.
    unsafe { later(frame, false) };
    std::ptr::null_mut()
});

handler!(with_a_future, frame => {
    // SAFETY: `frame` is a host's call frame, and the call has one result.
    unsafe { later(frame, true) };
    std::ptr::null_mut()
});

handler!(fine, _frame => std::ptr::null_mut());

fn executable(stages: &[(Stage, XLA_FFI_Handler)]) -> Executable {
    // SAFETY: `fine` is a handler.
    let mut bundle = unsafe { Bundle::execute(fine) };
    for &(stage, handler) in stages {
        // SAFETY: the functions in `stages` are handlers.
        bundle = unsafe { bundle.with(stage, handler) };
    }
    let handler = Runtime::new(Revision::R10).handler("odd", bundle);
    handler.unwrap().instantiate(&Attributes::new()).unwrap()
}

fn call(executable: &Executable, memory: &Arc<Ledger>) -> Call {
    let call = executable.call().allocator(memory.clone());
    call.ret(Shape::new(DType::S64, []).unwrap())
}

/// An allocator that records the contents of memory when the memory is freed, which may be before or after the
/// handler's write.
#[derive(Default)]
struct Ledger(Mutex<Vec<i64>>);

// SAFETY: an allocator of the runtime returns the memory.
unsafe impl DeviceAllocator for Ledger {
    fn allocate(&self, _size: usize, alignment: usize) -> Option<*mut c_void> {
        Some(memory(alignment).cast())
    }

    unsafe fn free(&self, data: *mut c_void, _size: usize) {
        // SAFETY: `allocate` returned the memory. It is never actually freed, so that late writes of handlers cause
        // no damage.
        let value = unsafe { data.cast::<i64>().read_volatile() };
        self.0.lock().unwrap().push(value);
    }
}

impl Ledger {
    /// Waits until memory is freed, and returns its contents at the time of the free.
    fn freed(&self) -> i64 {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(value) = self.0.lock().unwrap().pop() {
                return value;
            }
            assert!(Instant::now() < end, "the memory is never freed");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn operands_are_the_handlers_until_what_it_left_open_is_complete() {
    for (handler, hazard, code) in [
        (
            beside_an_error as XLA_FFI_Handler,
            Hazard::ErrorAndFuture,
            ErrorCode::FailedPrecondition,
        ),
        (kept_back, Hazard::FutureMisuse, ErrorCode::Internal),
    ] {
        let executable = executable(&[(Stage::Execute, handler)]);
        let memory = Arc::new(Ledger::default());
        let mut prepared = call(&executable, &memory).prepare().unwrap();
        let error = prepared.start().unwrap_err();
        assert!(error.has(hazard) && error.code() == code, "{error}");
        assert!(prepared.is_open(), "its thread writes the result");
        let refused = prepared.ret_bytes(0).unwrap_err();
        assert!(refused.message().contains("is open"), "{refused}");
        prepared.wait().unwrap();
        assert_eq!(prepared.ret_bytes(0).unwrap(), WRITTEN.to_ne_bytes());
        assert_eq!(memory.freed(), WRITTEN);
        // The next execution fails in the same way. If the call is then dropped, the runtime keeps the resources of
        // the call.
        assert!(prepared.start().unwrap_err().has(hazard));
        drop(prepared);
        assert_eq!(memory.freed(), WRITTEN);
        assert!(call(&executable, &memory).run().unwrap_err().has(hazard));
        assert_eq!(memory.freed(), WRITTEN);
    }
}

#[test]
fn stages_without_futures_have_the_same() {
    for stage in [Stage::Prepare, Stage::Initialize] {
        for (handler, said) in [
            (
                with_a_future as XLA_FFI_Handler,
                "only the execute stage may",
            ),
            (beside_an_error, "as it was told to"),
            (kept_back, "neither returned"),
        ] {
            let executable = executable(&[(stage, handler)]);
            let memory = Arc::new(Ledger::default());
            let error = call(&executable, &memory).prepare().unwrap_err();
            assert!(error.message().contains(said), "{error}");
            assert_eq!(memory.freed(), WRITTEN, "{stage}: {said}");
        }
    }
    // After `prepare_on` has returned an error, the caller can use its memory again.
    let prepare = executable(&[(Stage::Prepare, with_a_future)]);
    let mut y = 0_i64;
    let place: *mut i64 = &raw mut y;
    let results = [(Shape::new(DType::S64, []).unwrap(), place.cast())];
    let frame = CallFrame::new(Revision::R10, &[], &results).unwrap();
    let call_on = prepare.call().allocator(Arc::new(Ledger::default()));
    // SAFETY: `y` exists until the handler's thread is done.
    let error = unsafe { call_on.prepare_on(frame) }.unwrap_err();
    assert!(
        error.message().contains("only the execute stage may"),
        "{error}"
    );
    assert_eq!(y, WRITTEN);
    let executable = executable(&[(Stage::Record, with_a_future)]);
    let memory = Arc::new(Ledger::default());
    let mut prepared = call(&executable, &memory).prepare().unwrap();
    let mut recorder = Recorder::new(Revision::R10, 3).unwrap();
    let error = prepared.record(&mut recorder).unwrap_err();
    assert!(
        error.message().contains("only the execute stage may"),
        "{error}"
    );
    assert!(prepared.is_open());
    prepared.wait().unwrap();
    assert_eq!(memory.freed(), WRITTEN);
}

static STAGES: AtomicUsize = AtomicUsize::new(0);
static CANCELS: AtomicBool = AtomicBool::new(false);
static CANCELLER: Mutex<Option<Canceller>> = Mutex::new(None);

handler!(counted, _frame => {
    STAGES.fetch_add(1, Ordering::SeqCst);
    if CANCELS.load(Ordering::SeqCst) {
        CANCELLER.lock().unwrap().as_ref().unwrap().cancel();
    }
    std::ptr::null_mut()
});

#[test]
fn no_stage_begins_of_a_call_that_is_cancelled_or_late() {
    let executable = executable(&[
        (Stage::Prepare, counted),
        (Stage::Initialize, counted),
        (Stage::Record, counted),
    ]);
    let call = || executable.call();
    let canceller = Canceller::new();
    // The call is cancelled between two stages.
    *CANCELLER.lock().unwrap() = Some(canceller.clone());
    CANCELS.store(true, Ordering::SeqCst);
    let error = call().canceller(&canceller).prepare().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Cancelled, "{error}");
    assert!(error.message().contains("initialize"), "{error}");
    assert_eq!(STAGES.swap(0, Ordering::SeqCst), 1);
    CANCELS.store(false, Ordering::SeqCst);
    // The call is cancelled before the first stage.
    let error = call().canceller(&canceller).prepare().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Cancelled, "{error}");
    let error = call()
        .time_limit(Some(Duration::ZERO))
        .prepare()
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
    assert_eq!(STAGES.swap(0, Ordering::SeqCst), 0);
    // The call is cancelled before the record stage.
    let canceller = Canceller::new();
    let mut prepared = call().canceller(&canceller).prepare().unwrap();
    assert_eq!(STAGES.swap(0, Ordering::SeqCst), 2);
    canceller.cancel();
    let mut recorder = Recorder::new(Revision::R10, 3).unwrap();
    let error = prepared.record(&mut recorder).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Cancelled, "{error}");
    assert_eq!(STAGES.load(Ordering::SeqCst), 0);
}

handler!(scratch, frame => {
    // SAFETY: `frame` is a call frame of a host.
    unsafe { allocate(frame) }.err().unwrap_or(std::ptr::null_mut())
});

handler!(user_data, frame => {
    // SAFETY: the function in slot 6 has this type.
    let get: Function<XLA_FFI_InvokeContext_Get_Args> = unsafe { slot(frame, 6) };
    let mut id = XLA_FFI_TypeId { type_id: 77 };
    let mut args = XLA_FFI_InvokeContext_Get_Args {
        struct_size: XLA_FFI_InvokeContext_Get_Args::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        // SAFETY: `frame` is a call frame of a host.
        ctx: unsafe { (*frame).ctx },
        type_id: &raw mut id,
        data: std::ptr::null_mut(),
    };
    // SAFETY: the arguments struct is complete.
    unsafe { get(&raw mut args) }
});

#[test]
fn what_a_call_lacks_is_told_with_its_handler_and_type() {
    let runtime = Runtime::default();
    // SAFETY: no objects of this type exist.
    unsafe { runtime.register_type("tests.Store", 77, TypeInfo::new(None)) }.unwrap();
    let run = |name, function: XLA_FFI_Handler| {
        // SAFETY: the callers pass handlers of this file.
        let bundle = unsafe { Bundle::execute(function) };
        let handler = runtime.handler(name, bundle).unwrap();
        let executable = handler.instantiate(&Attributes::new()).unwrap();
        executable.call().run().unwrap_err()
    };
    let error = run("sort", scratch);
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.message().contains("allocator"), "{error}");
    let error = run("scaled", user_data);
    assert_eq!(error.code(), ErrorCode::NotFound);
    for name in ["scaled (execute)", "tests.Store"] {
        assert!(error.message().contains(name), "{error}");
    }
}

#[test]
fn nothing_is_made_after_a_shutdown() {
    let runtime = Runtime::default();
    // SAFETY: `scratch` is a handler.
    let bundle = unsafe { Bundle::execute(scratch) };
    let handler = runtime.handler("sort", bundle).unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    runtime.shutdown(Duration::from_secs(20)).unwrap();
    let refused = ErrorCode::Unavailable;
    let error = handler.instantiate(&Attributes::new()).unwrap_err();
    assert_eq!(error.code(), refused);
    assert_eq!(executable.call().prepare().unwrap_err().code(), refused);
}
