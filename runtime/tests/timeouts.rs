//! Tests of calls that exceed their time limit. The calls must keep their operands until they are complete.

mod support;

use std::ffi::c_void;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use support::{Function, future, metadata, ret, slot};
use xla_ffi_runtime::{
    Attributes, Bundle, CallFrame, DType, ErrorCode, Hazard, PreparedCall, Revision, Runtime,
    Shape, UserData, living_objects,
};
use xla_ffi_sys::{
    XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Future_SetAvailable_Args, XLA_FFI_Handler,
};

/// A channel on which the thread of a handler waits. Only one test at a time uses the channel.
static GATE: Mutex<Option<Receiver<()>>> = Mutex::new(None);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Creates a new channel for the next handler. A send on the channel lets the handler's thread continue.
fn gate() -> (MutexGuard<'static, ()>, Sender<()>) {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (open, gate) = channel();
    *GATE.lock().unwrap() = Some(gate);
    (alone, open)
}

/// Returns a future in the frame. Its thread waits for the gate, writes ones to the 4096-byte result, and completes
/// the future.
///
/// # Safety
/// `frame` must be a call frame of a host of r10. The call must have a result of 4096 bytes.
unsafe fn begin(frame: *mut XLA_FFI_CallFrame) {
    // SAFETY: the function in slot 14 has this type.
    let complete: Function<XLA_FFI_Future_SetAvailable_Args> = unsafe { slot(frame, 14) };
    // SAFETY: `frame` is a call frame of a host of r10.
    let future = unsafe { future(frame) };
    // SAFETY: frames of r10 have the field `future`.
    unsafe { (*frame).future = future };
    // SAFETY: the call has one result.
    let y = unsafe { ret(frame, 0) } as usize;
    let future = future as usize;
    let gate = GATE.lock().unwrap().take().expect("a gate");
    std::thread::spawn(move || {
        gate.recv().expect("to be let");
        // SAFETY: the host keeps the result until the future is complete.
        unsafe { (y as *mut u8).write_bytes(1, 4096) };
        let mut args = XLA_FFI_Future_SetAvailable_Args {
            struct_size: 24,
            extension_start: std::ptr::null_mut(),
            future: future as *mut _,
        };
        // SAFETY: the arguments struct is complete.
        assert!(unsafe { complete(&raw mut args) }.is_null());
    });
}

unsafe extern "C" fn late(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the calls of this handler have a result of 4096 bytes, on a host of r10.
    unsafe { begin(frame) };
    std::ptr::null_mut()
}

/// A handler like `late` that also writes after the end of its frame.
unsafe extern "C" fn overruns(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the calls of this handler have a result of 4096 bytes, on a host of r10.
    unsafe { begin(frame) };
    let behind = frame.cast::<u8>().wrapping_add(176);
    // SAFETY: the embedded runtime has a guard after the frame.
    unsafe { behind.write(0) };
    std::ptr::null_mut()
}

/// Returns a prepared call of a handler, with the result in memory of the caller.
fn prepared(handler: XLA_FFI_Handler, y: *mut c_void) -> (PreparedCall, Arc<()>) {
    let runtime = Runtime::default();
    let kept = Arc::new(());
    let mut user_data = UserData::new(&runtime);
    // SAFETY: no handler accesses the object.
    unsafe { user_data.insert("kept", kept.clone()) }.unwrap();
    // SAFETY: the callers pass handlers of this file.
    let bundle = unsafe { Bundle::execute(handler) };
    let handler = runtime.handler("late", bundle).unwrap();
    let call = handler.instantiate(&Attributes::new()).unwrap().call();
    let ret = [(Shape::new(DType::U8, [4096]).unwrap(), y)];
    let frame = CallFrame::new(Revision::NEWEST, &[], &ret).unwrap();
    let call = call
        .time_limit(Some(Duration::from_millis(20)))
        .user_data(user_data);
    // SAFETY: the callers keep the memory until the call is complete.
    (unsafe { call.prepare_on(frame) }.unwrap(), kept)
}

fn memory() -> *mut [u8; 4096] {
    Box::into_raw(Box::new([0; 4096]))
}

#[test]
fn an_open_call_can_be_waited_for_again() {
    let (_alone, open) = gate();
    let y = memory();
    let (mut call, _kept) = prepared(late, y.cast());
    assert!(!call.is_open() && call.wait().is_ok());
    let error = call.invoke().unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
    assert!(call.is_open());
    assert_eq!(
        call.invoke().unwrap_err().code(),
        ErrorCode::FailedPrecondition
    );
    let still = call.wait_for(Some(Duration::ZERO)).unwrap_err();
    assert_eq!(still.code(), ErrorCode::DeadlineExceeded);
    // SAFETY: the call has one result. While the call is open, `update` returns an error and changes nothing.
    let refused = unsafe { call.update(&[], &[std::ptr::null_mut()]) }.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::FailedPrecondition);
    open.send(()).unwrap();
    call.wait_for(None).unwrap();
    assert!(!call.is_open());
    // SAFETY: the call has ended, so only this test uses the memory.
    assert_eq!(unsafe { *Box::from_raw(y) }, [1; 4096]);
}

#[test]
fn a_call_that_is_dropped_open_says_when_its_operands_are_free() {
    let (_alone, open) = gate();
    let y = memory() as usize;
    let (mut call, kept) = prepared(late, y as *mut c_void);
    assert_eq!(
        call.invoke().unwrap_err().code(),
        ErrorCode::DeadlineExceeded
    );
    let (tell, told) = channel();
    call.on_end(move || {
        // SAFETY: the call has ended, so only this test uses the memory.
        let y = unsafe { Box::from_raw(y as *mut [u8; 4096]) };
        tell.send(*y).unwrap();
    });
    drop(call);
    assert!(told.try_recv().is_err());
    assert_eq!(
        Arc::strong_count(&kept),
        2,
        "what the handler may use is kept"
    );
    open.send(()).unwrap();
    assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok([1; 4096]));
    // The runtime drops the user data without further calls.
    soon(|| Arc::strong_count(&kept) == 1);
}

/// Waits until `is_so` returns true, and fails after a time limit.
fn soon(is_so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(std::time::Instant::now() < end, "never");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn calls_that_timed_out_leave_nothing_when_their_handlers_end() {
    let (_alone, open) = gate();
    // SAFETY: `late` is a handler.
    let bundle = unsafe { Bundle::execute(late) };
    let handler = Runtime::default().handler("late", bundle).unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    let before = living_objects();
    let mut gates = vec![open];
    for _ in 0..6 {
        let call = executable.call().time_limit(Some(Duration::from_millis(5)));
        let call = call.ret(Shape::new(DType::U8, [4 << 20]).unwrap());
        assert_eq!(call.run().unwrap_err().code(), ErrorCode::DeadlineExceeded);
        let (open, gate) = channel();
        *GATE.lock().unwrap() = Some(gate);
        gates.push(open);
    }
    assert_eq!(living_objects().1, before.1 + 6);
    for open in &gates[..6] {
        open.send(()).unwrap();
    }
    // The runtime drops the objects, although no other call runs.
    soon(|| living_objects() == before);
}

#[test]
fn a_hazard_does_not_end_a_call_that_the_handler_goes_on_with() {
    let (_alone, open) = gate();
    let y = memory();
    let (mut call, _kept) = prepared(overruns, y.cast());
    let error = call.invoke().unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
    assert!(call.is_open());
    open.send(()).unwrap();
    let error = call.wait_for(None).unwrap_err();
    assert!(error.has(Hazard::FrameOverrun), "{error}");
    // SAFETY: the call has ended, so only this test uses the memory.
    assert_eq!(unsafe { *Box::from_raw(y) }, [1; 4096]);
}
