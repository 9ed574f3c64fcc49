//! Tests of unusual but safe code. Operands are changed, cloned or dropped while they are in use, and programs lend
//! memory to tensors. The handlers use unsafe code, but their callers do not.

mod support;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use support::{metadata, ret, stream};
use xla_ffi_runtime::{
    Attributes, Bundle, CallFrame, CpuDevice, CpuStream, DType, DeviceStream, ErrorCode,
    Executable, Revision, Runtime, Shape, Stage, Tensor, Unwritten,
};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Handler};

const BYTES: usize = 16;

/// Enqueues work on the stream. After a delay, the work adds 1 to each byte of the result and then sets `done`.
///
/// # Safety
/// `frame` must be a call frame of a host and have a result of `BYTES` bytes.
unsafe fn adds(frame: *mut XLA_FFI_CallFrame, done: &'static AtomicBool) {
    // SAFETY: guaranteed by the caller.
    let y = unsafe { ret(frame, 0) } as usize;
    // SAFETY: guaranteed by the caller.
    let stream = unsafe { stream(frame) }.expect("the call has a stream");
    let stream = CpuStream::from_handle(stream).expect("a CPU stream");
    stream.enqueue(Box::new(move || {
        std::thread::sleep(Duration::from_millis(50));
        for index in 0..BYTES {
            let byte = (y as *mut u8).wrapping_add(index);
            // SAFETY: the host keeps the result until the stream has run the work.
            let value = unsafe { byte.read() };
            // SAFETY: the host keeps the result until the stream has run the work.
            unsafe { byte.write(value.wrapping_add(1)) };
        }
        done.store(true, Ordering::SeqCst);
    }));
}

unsafe extern "C" fn later(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if !unsafe { metadata(frame, 1, 0) } {
        static NOBODY_LOOKS: AtomicBool = AtomicBool::new(false);
        // SAFETY: the calls of this handler have a result of `BYTES` bytes.
        unsafe { adds(frame, &NOBODY_LOOKS) };
    }
    std::ptr::null_mut()
}

/// A handler that writes fives to the first eight bytes of its result.
unsafe extern "C" fn fives(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if !unsafe { metadata(frame, 1, 0) } {
        // SAFETY: the calls of this handler have a result of at least eight bytes.
        let y = unsafe { ret(frame, 0) }.cast::<u8>();
        // SAFETY: the calls of this handler have a result of at least eight bytes.
        unsafe { y.write_bytes(5, 8) };
    }
    std::ptr::null_mut()
}

unsafe extern "C" fn nothing(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    unsafe { metadata(frame, 1, 0) };
    std::ptr::null_mut()
}

fn executable_on(runtime: &Runtime, bundle: Bundle) -> Executable {
    let handler = runtime.handler("safe", bundle).unwrap();
    handler.instantiate(&Attributes::new()).unwrap()
}

fn executable(handler: XLA_FFI_Handler) -> Executable {
    // SAFETY: the callers pass handlers.
    let bundle = unsafe { Bundle::execute(handler) };
    executable_on(&Runtime::default(), bundle)
}

fn bytes(count: usize) -> Shape {
    Shape::new(DType::U8, [count as i64]).unwrap()
}

/// Memory that the program lends to a tensor, and reads during the tensor's lifetime.
struct Lent(*mut [u128; 1]);

impl Lent {
    fn new() -> Self {
        Self(Box::into_raw(Box::new([0])))
    }

    /// Returns a tensor in the lent memory. The tensor's last clone drops `owner`.
    fn tensor(&self, shape: Shape, owner: impl std::any::Any + Send + Sync) -> Tensor {
        // SAFETY: the memory has 16 bytes, which are valid until the test ends.
        unsafe { Tensor::from_raw(shape, self.0.cast(), owner) }.unwrap()
    }

    fn bytes(&self) -> [u8; BYTES] {
        // SAFETY: at this point, no code writes the memory.
        unsafe { self.0.cast::<[u8; BYTES]>().read_volatile() }
    }
}

#[test]
fn operands_that_a_stage_has_seen_stay() {
    // SAFETY: `fives` is a handler.
    let bundle = unsafe { Bundle::execute(fives) };
    for stage in [Stage::Prepare, Stage::Initialize] {
        // SAFETY: `nothing` is a handler.
        let bundle = unsafe { bundle.with(stage, nothing) };
        let executable = executable_on(&Runtime::default(), bundle);
        let x = || Tensor::zeros(bytes(8)).unwrap();
        let mut call = executable.call().arg(x()).ret(bytes(8)).prepare().unwrap();
        call.invoke().unwrap();
        let refused = call.set_args([x()]).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::FailedPrecondition);
        assert!(refused.message().contains("has seen"), "{refused}");
        // The call is repeated with results in memory of the caller.
        let (mut one, mut other) = ([0_u64], [0_u64]);
        let (one, other): (*mut c_void, *mut c_void) =
            (one.as_mut_ptr().cast(), other.as_mut_ptr().cast());
        let frame = CallFrame::new(Revision::NEWEST, &[], &[(bytes(8), one)]).unwrap();
        // SAFETY: both arrays outlive the call.
        let mut call = unsafe { executable.call().prepare_on(frame) }.unwrap();
        call.invoke().unwrap();
        // SAFETY: both arrays outlive the call.
        let refused = unsafe { call.update(&[], &[other]) }.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::FailedPrecondition);
        // The same result may be set again.
        // SAFETY: both arrays outlive the call.
        unsafe { call.update(&[], &[one]) }.unwrap();
        call.invoke().unwrap();
        // SAFETY: both arrays outlive the call.
        let miscounted = unsafe { call.update(&[one], &[one]) }.unwrap_err();
        assert_eq!(miscounted.code(), ErrorCode::InvalidArgument);
    }
}

#[test]
fn a_clone_has_what_the_stream_has_yet_to_write() {
    let device = CpuDevice::new().unwrap();
    let executable = executable(later);
    let call = executable.call().on_device(&device);
    let mut call = call
        .arg(Tensor::from_bytes(bytes(BYTES), &[1; BYTES]).unwrap())
        .ret_alias(0)
        .prepare()
        .unwrap();
    call.invoke().unwrap();
    let clone = call.try_clone().unwrap();
    assert_eq!(clone.into_rets().unwrap()[0].bytes(), [2; BYTES]);
    let (send, told) = mpsc::channel();
    device.stream.enqueue(Box::new(move || {
        let refused = call.try_clone().map(drop).map_err(|error| error.code());
        send.send(refused).unwrap();
    }));
    let told = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(told, Err(ErrorCode::FailedPrecondition));
}

#[test]
fn results_in_the_programs_memory_are_there_or_refused() {
    let of = |lent: &Lent| lent.bytes()[..9].to_vec();
    let wanted = [5, 5, 5, 5, 5, 5, 5, 5, 0];
    // Hosts before r5 pack elements in the opposite order, so results cannot be in memory of the caller.
    let packed = Shape::new(DType::S4, [16]).unwrap();
    for (revision, refused) in [
        (Revision::R3, true),
        (Revision::R4, true),
        (Revision::R5, false),
    ] {
        // SAFETY: `fives` is a handler.
        let bundle = unsafe { Bundle::execute(fives) };
        let executable = executable_on(&Runtime::new(revision), bundle);
        let lent = Lent::new();
        let call = executable.call().ret_in(lent.tensor(packed.clone(), ()));
        match call.prepare() {
            Err(error) if refused => assert_eq!(error.code(), ErrorCode::Unimplemented),
            call => {
                assert!(!refused, "{revision}");
                call.unwrap().invoke().unwrap();
                assert_eq!(of(&lent), wanted);
            }
        }
    }
}

#[test]
fn a_shutdown_leaves_the_results_of_the_last_execution() {
    let runtime = Runtime::default();
    // SAFETY: `fives` is a handler.
    let bundle = unsafe { Bundle::execute(fives) };
    let call = executable_on(&runtime, bundle).call();
    let call = call.ret(bytes(8)).unwritten(Unwritten::Refused);
    let mut call = call.prepare().unwrap();
    call.invoke().unwrap();
    runtime.shutdown(Duration::from_secs(20)).unwrap();
    assert_eq!(call.invoke().unwrap_err().code(), ErrorCode::Unavailable);
    assert_eq!(call.ret_bytes(0).unwrap(), [5; 8]);
}
