//! What safe code does with calls that it was not expected to do: operands that are changed, cloned or dropped while
//! something else has them, and memory that the program lends. The handlers are not safe; their callers are.

mod support;

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use support::handlers::{error, metadata, ret, stream};
use xla_ffi_runtime::{
    Attributes, Bundle, CallFrame, Code, CpuDevice, CpuStream, DType, DeviceStream, Displaced,
    Executable, Revision, Runtime, Shape, Stage, Tensor, Unwritten,
};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Handler};

const BYTES: usize = 16;

/// Puts work on the stream that adds 1 to each byte of the result, after a while, and says then that it is done.
///
/// # Safety
/// The frame is a host's with a result of that many bytes.
unsafe fn adds(frame: *mut XLA_FFI_CallFrame, done: &'static AtomicBool) {
    // SAFETY: as promised by the caller.
    let y = unsafe { ret(frame, 0) } as usize;
    // SAFETY: as above.
    let stream = unsafe { stream(frame) }.expect("the call has a stream");
    let stream = CpuStream::from_handle(stream).expect("a CPU stream");
    stream.enqueue(Box::new(move || {
        std::thread::sleep(Duration::from_millis(50));
        for index in 0..BYTES {
            let byte = (y as *mut u8).wrapping_add(index);
            // SAFETY: the host keeps the result until the stream has run.
            let value = unsafe { byte.read() };
            // SAFETY: as above.
            unsafe { byte.write(value.wrapping_add(1)) };
        }
        done.store(true, Ordering::SeqCst);
    }));
}

/// Whether the work of [`fails_first`] has run, of which there is one call.
static DONE: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn later(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    if !unsafe { metadata(frame, 1, 0) } {
        static NOBODY_LOOKS: AtomicBool = AtomicBool::new(false);
        // SAFETY: the calls below are like that.
        unsafe { adds(frame, &NOBODY_LOOKS) };
    }
    std::ptr::null_mut()
}

/// The same in a stage before execute, which fails then.
unsafe extern "C" fn fails_first(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the calls below are like that.
    unsafe { adds(frame, &DONE) };
    // SAFETY: the frame is a host's.
    unsafe { error(frame, 9, c"as it was told to") }
}

/// Fives in the first eight bytes of the result.
unsafe extern "C" fn fives(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    if !unsafe { metadata(frame, 1, 0) } {
        // SAFETY: the calls below have a result of as many.
        let y = unsafe { ret(frame, 0) }.cast::<u8>();
        // SAFETY: as above.
        unsafe { y.write_bytes(5, 8) };
    }
    std::ptr::null_mut()
}

unsafe extern "C" fn nothing(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    unsafe { metadata(frame, 1, 0) };
    std::ptr::null_mut()
}

fn executable_on(runtime: &Runtime, bundle: Bundle) -> Executable {
    let handler = runtime.handler("safe", bundle).unwrap();
    handler.instantiate(&Attributes::new()).unwrap()
}

fn executable(handler: XLA_FFI_Handler) -> Executable {
    // SAFETY: the functions above are handlers.
    let bundle = unsafe { Bundle::execute(handler) };
    executable_on(&Runtime::default(), bundle)
}

fn bytes(count: usize) -> Shape {
    Shape::new(DType::U8, [count as i64]).unwrap()
}

/// Memory of the program's, which it looks at though a tensor has it.
struct Lent(*mut [u128; 1]);

impl Lent {
    fn new() -> Self {
        Self(Box::into_raw(Box::new([0])))
    }

    /// The memory as a result; `owner` goes with it.
    fn tensor(&self, shape: Shape, owner: impl std::any::Any + Send + Sync) -> Tensor {
        // SAFETY: 16 bytes, which stay for as long as the test runs.
        unsafe { Tensor::from_raw(shape, self.0.cast(), owner) }.unwrap()
    }

    fn bytes(&self) -> [u8; BYTES] {
        // SAFETY: nobody writes there any more.
        unsafe { self.0.cast::<[u8; BYTES]>().read_volatile() }
    }
}

#[test]
fn operands_that_a_stage_has_seen_stay() {
    // SAFETY: the functions are handlers.
    let bundle = unsafe { Bundle::execute(fives) };
    for stage in [Stage::Prepare, Stage::Initialize] {
        // SAFETY: as above.
        let bundle = unsafe { bundle.with(stage, nothing) };
        let executable = executable_on(&Runtime::default(), bundle);
        let x = || Tensor::zeros(bytes(8)).unwrap();
        let mut call = executable.call().arg(x()).ret(bytes(8)).prepare().unwrap();
        call.invoke().unwrap();
        let refused = call.set_args([x()]).unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("has seen"), "{refused}");
        // The same in the caller's memory.
        let (mut one, mut other) = ([0_u64], [0_u64]);
        let (one, other): (*mut c_void, *mut c_void) =
            (one.as_mut_ptr().cast(), other.as_mut_ptr().cast());
        let frame = CallFrame::new(Revision::NEWEST, &[], &[(bytes(8), one)]).unwrap();
        // SAFETY: both arrays outlive the call.
        let mut call = unsafe { executable.call().prepare_on(frame) }.unwrap();
        call.invoke().unwrap();
        // SAFETY: as above.
        let refused = unsafe { call.update(&[], &[other]) }.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        // Nothing changes here.
        // SAFETY: as above.
        unsafe { call.update(&[], &[one]) }.unwrap();
        call.invoke().unwrap();
        // SAFETY: as above.
        let miscounted = unsafe { call.update(&[one], &[one]) }.unwrap_err();
        assert_eq!(miscounted.code(), Code::InvalidArgument);
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
    assert_eq!(told, Err(Code::FailedPrecondition));
}

#[test]
fn displaced_operands_stay_where_the_stream_cannot_be_waited_for() {
    let device = CpuDevice::new().unwrap();
    let executable = executable(later);
    let call = || executable.call().on_device(&device).ret(bytes(BYTES));
    let outcome = call().run_displaced(Displaced::Result(0)).unwrap();
    assert_eq!(outcome.rets[0].bytes(), [1; BYTES]);
    let (send, told) = mpsc::channel();
    let call = call();
    device.stream.enqueue(Box::new(move || {
        let outcome = call.run_displaced(Displaced::Result(0));
        send.send(outcome.map(drop).map_err(|error| error.code()))
            .unwrap();
    }));
    let told = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(told, Err(Code::FailedPrecondition));
    device.stream.synchronize().unwrap();
}

/// Says whether the work on the stream was done when it went.
struct Witness(mpsc::Sender<bool>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.send(DONE.load(Ordering::SeqCst)).unwrap();
    }
}

#[test]
fn operands_of_a_call_whose_first_stage_fails_wait_for_the_stream() {
    let device = CpuDevice::new().unwrap();
    // SAFETY: `fives` is a handler.
    let bundle = unsafe { Bundle::execute(fives) };
    // SAFETY: `fails_first`, too.
    let bundle = unsafe { bundle.with(Stage::Initialize, fails_first) };
    let executable = executable_on(&Runtime::default(), bundle);
    let (send, told) = mpsc::channel();
    let lent = Lent::new();
    let y = lent.tensor(bytes(BYTES), Witness(send));
    let failed = executable.call().on_device(&device).ret_in(y).prepare();
    assert_eq!(failed.unwrap_err().message(), "as it was told to");
    assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(true));
}

/// An owner that panics when it goes, without the hook.
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        resume_unwind(Box::new("on purpose"));
    }
}

#[test]
fn a_call_is_whole_though_what_it_had_before_panics() {
    let executable = executable(fives);
    let lent = Lent::new();
    let panics = |renew: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(renew)).is_err();
    // A result that goes.
    let call = executable.call().ret_in(lent.tensor(bytes(8), Panics));
    let mut call = call.prepare().unwrap();
    call.invoke().unwrap();
    let again = || Some(executable.call().ret(bytes(9)));
    assert!(panics(&mut || call.renew(again().unwrap()).unwrap()));
    call.invoke().unwrap();
    assert_eq!(call.ret_bytes(0).unwrap(), [5, 5, 5, 5, 5, 5, 5, 5, 0]);
    // An argument.
    let call = executable.call().arg(lent.tensor(bytes(8), Panics));
    let mut call = call.ret(bytes(8)).prepare().unwrap();
    assert!(panics(&mut || call
        .renew(executable.call().ret(bytes(9)))
        .unwrap()));
    call.invoke().unwrap();
    assert_eq!(call.ret_bytes(0).unwrap(), [5, 5, 5, 5, 5, 5, 5, 5, 0]);
    let set = executable.call().arg(lent.tensor(bytes(8), Panics));
    let mut call = set.ret(bytes(8)).prepare().unwrap();
    let other = Tensor::zeros(bytes(8)).unwrap();
    assert!(panics(&mut || call.set_args([other.clone()]).unwrap()));
    call.invoke().unwrap();
    // Operands of the caller's in place of the call's own.
    let call = executable.call().arg(lent.tensor(bytes(8), Panics));
    let mut call = call.ret(bytes(8)).prepare().unwrap();
    let mut y = [0_u64; 2];
    let place: *mut c_void = y.as_mut_ptr().cast();
    let mut renewed = || {
        let frame = CallFrame::new(Revision::NEWEST, &[], &[(bytes(16), place)]).unwrap();
        // SAFETY: the array outlives the call.
        unsafe { call.renew_on(executable.call(), frame) }.unwrap();
    };
    assert!(panics(&mut renewed));
    call.invoke().unwrap();
    drop(call);
    assert_eq!(y, [0x0505_0505_0505_0505, 0]);
}

#[test]
fn results_in_the_programs_memory_are_there_or_refused() {
    let of = |lent: &Lent| lent.bytes()[..9].to_vec();
    let wanted = [5, 5, 5, 5, 5, 5, 5, 5, 0];
    let executable = executable(fives);
    let lent = Lent::new();
    let call = executable.call().ret_in(lent.tensor(bytes(9), ()));
    let outcome = call.run_displaced(Displaced::Result(0)).unwrap();
    assert_eq!(outcome.rets[0].bytes().as_ptr(), lent.0.cast::<u8>());
    assert_eq!(of(&lent), wanted);
    // Nobody else may hold it.
    let shared = lent.tensor(bytes(9), ());
    let call = executable.call().ret_in(shared.clone());
    let refused = call.run_displaced(Displaced::Result(0));
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    // Elements that share bytes are packed otherwise there.
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
            Err(error) if refused => assert_eq!(error.code(), Code::Unimplemented),
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
    assert_eq!(call.invoke().unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(call.ret_bytes(0).unwrap(), [5; 8]);
}
