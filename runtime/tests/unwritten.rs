//! Tests that results which handlers leave unwritten are reported if requested.

mod support;

use std::ffi::c_void;
use std::time::Duration;
use support::{Function, arg, error, future, metadata, ret, slot};
use xla_ffi_runtime::{
    Attributes, Bundle, Call, DType, Error, Hazard, Revision, Runtime, Shape, Tensor, Unwritten,
};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Future_SetAvailable_Args};

/// The ways in which a handler ends, selected by its argument. Before its end, the handler writes ones to some bytes
/// of each result.
const SUCCEEDS: u8 = 0;
const FAILS: u8 = 1;
const COMPLETES_LATER: u8 = 2;

unsafe fn write(rets: &[usize], bytes: u8) {
    for ret in rets {
        // SAFETY: the caller guarantees that each result has at least this many bytes.
        unsafe { (*ret as *mut u8).write_bytes(1, bytes.into()) };
    }
}

/// The work of a handler's thread.
struct Job {
    rets: Vec<usize>,
    bytes: u8,
    complete: Function<XLA_FFI_Future_SetAvailable_Args>,
    future: usize,
}

impl Job {
    fn run(self) {
        std::thread::sleep(Duration::from_millis(20));
        // SAFETY: the host keeps the results until the future is complete.
        unsafe { write(&self.rets, self.bytes) };
        let mut args = XLA_FFI_Future_SetAvailable_Args {
            struct_size: 24,
            extension_start: std::ptr::null_mut(),
            future: self.future as *mut _,
        };
        // SAFETY: the arguments struct is complete.
        assert!(unsafe { (self.complete)(&raw mut args) }.is_null());
    }
}

/// A handler whose first argument selects the number of bytes to write and the way in which the handler ends.
unsafe extern "C" fn partial(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: `frame` is a call frame of a host.
    let count = unsafe { (*frame).rets.size } as usize;
    // SAFETY: the call has `count` results.
    let rets: Vec<_> = (0..count)
        .map(|index| unsafe { ret(frame, index) } as usize)
        .collect();
    // SAFETY: the call has an argument.
    let x = unsafe { arg(frame, 0) };
    // SAFETY: the argument has two bytes.
    let [bytes, end] = unsafe { x.cast::<[u8; 2]>().read() };
    if end == COMPLETES_LATER {
        // SAFETY: `frame` is a call frame of a host of r10.
        let future = unsafe { future(frame) };
        // SAFETY: frames of r10 have the field `future`.
        unsafe { (*frame).future = future };
        let job = Job {
            rets,
            bytes,
            // SAFETY: the function in slot 14 has this type.
            complete: unsafe { slot(frame, 14) },
            future: future as usize,
        };
        std::thread::spawn(move || job.run());
        return std::ptr::null_mut();
    }
    // SAFETY: the tests request at most as many bytes as the results have.
    unsafe { write(&rets, bytes) };
    if end == FAILS {
        // SAFETY: `frame` is a call frame of a host.
        return unsafe { error(frame, 5, c"failed") };
    }
    std::ptr::null_mut()
}

fn call(runtime: &Runtime, bytes: u8, end: u8) -> Call {
    // SAFETY: `partial` is a handler.
    let bundle = unsafe { Bundle::execute(partial) };
    let handler = runtime.handler("partial", bundle).unwrap();
    let call = handler.instantiate(&Attributes::new()).unwrap().call();
    call.arg(Tensor::from_slice([2], &[bytes, end]).unwrap())
}

fn shape(dtype: DType, dims: &[i64]) -> Shape {
    Shape::new(dtype, dims).unwrap()
}

/// Returns the message of the first finding.
fn told(error: &Error) -> &str {
    assert!(error.has(Hazard::UnwrittenResult), "{error}");
    assert!(
        error
            .message()
            .starts_with("partial (execute): hazard unwritten-result:")
    );
    error.message()
}

#[test]
fn what_is_left_is_told_by_result_and_element() {
    for end in [SUCCEEDS, COMPLETES_LATER] {
        let run = |bytes, check| {
            let call = call(&Runtime::default(), bytes, end).unwritten(check);
            let call = call.ret(shape(DType::F32, &[2, 3]));
            call.ret(shape(DType::F32, &[4])).run()
        };
        let error = run(12, Unwritten::Refused).unwrap_err();
        assert!(
            told(&error).contains("result 0 (f32[2,3]): the handler never wrote elements 3 to 5:")
        );
        assert_eq!(
            error.findings().len(),
            1,
            "four bytes of result 1 are let pass"
        );
        let error = run(0, Unwritten::Refused).unwrap_err();
        assert!(told(&error).contains("result 1 (f32[4]): the handler never wrote it:"));
        assert_eq!(error.findings().len(), 2);
        assert_eq!(run(16, Unwritten::Refused).unwrap_err().findings().len(), 1);
        // By default, unwritten results are accepted.
        let zeros = run(0, Unwritten::Allowed).unwrap();
        assert_eq!(zeros.rets[0].to_vec(), Some(vec![0_f32; 6]));
    }
}

#[test]
fn failures_aliases_and_what_is_empty_are_not_looked_at() {
    let runtime = Runtime::default();
    let checked = |bytes, end| call(&runtime, bytes, end).unwritten(Unwritten::Refused);
    let error = checked(0, FAILS)
        .ret(shape(DType::F32, &[4]))
        .run()
        .unwrap_err();
    assert_eq!((error.message(), error.findings().len()), ("failed", 0));
    let argument = Tensor::from_slice([4], &[1_i64, 2, 3, 4]).unwrap();
    let outcome = checked(0, SUCCEEDS)
        .arg(argument)
        .ret_alias(1)
        .run()
        .unwrap();
    assert_eq!(outcome.rets[0].to_vec(), Some(vec![1_i64, 2, 3, 4]));
    let empty = [shape(DType::F32, &[0, 4]), Shape::token()];
    let all = empty.into_iter().fold(checked(0, SUCCEEDS), Call::ret);
    assert!(all.run().is_ok());
}

#[test]
fn memory_of_the_caller_and_every_run() {
    let mut bytes = [0_u64; 2];
    let mut other = [0_u64; 2];
    let mut input = [8_u8, SUCCEEDS];
    let one = |shape: Shape, data: *mut c_void| vec![(shape, data)];
    let arg = one(shape(DType::U8, &[2]), input.as_mut_ptr().cast());
    let ret = one(shape(DType::U64, &[2]), bytes.as_mut_ptr().cast());
    let frame = xla_ffi_runtime::CallFrame::new(Revision::NEWEST, &arg, &ret).unwrap();
    let call = call(&Runtime::default(), 0, SUCCEEDS).unwritten(Unwritten::Refused);
    // SAFETY: the arrays outlive the call.
    let mut call = unsafe { call.prepare_on(frame) }.unwrap();
    for _ in 0..3 {
        assert!(told(&call.invoke().unwrap_err()).contains("element 1:"));
    }
    // SAFETY: the arrays outlive the call.
    unsafe { call.update(&[arg[0].1], &[other.as_mut_ptr().cast()]) }.unwrap();
    assert!(told(&call.invoke().unwrap_err()).contains("element 1:"));
    input[0] = 16;
    // SAFETY: the arrays outlive the call. The handler must receive the bytes that were written to the argument.
    unsafe { call.update(&[input.as_mut_ptr().cast()], &[other.as_mut_ptr().cast()]) }.unwrap();
    call.invoke().unwrap();
    drop(call);
    assert_eq!(other, [0x0101_0101_0101_0101; 2]);
}
