//! Tests the effects of an execution on later executions: incorrectly freed memory, memory that is still in use,
//! unread results, and old contents of results.

mod support;

use std::ffi::c_void;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use support::{Function, allocate, arg, error, future, metadata, ret, slot};
use xla_ffi_runtime::{
    Attributes, Bundle, Call, CallFrame, Canceller, DType, DeviceAllocator, Displaced, ErrorCode,
    Executable, Revision, Runtime, Shape, Tensor, Unwritten,
};
use xla_ffi_sys::{
    XLA_FFI_CallFrame, XLA_FFI_DeviceMemory_Free_Args, XLA_FFI_Error,
    XLA_FFI_Future_SetAvailable_Args,
};

// The actions of the handler, selected by its argument.
const FAILS: i64 = 1;
const WRITES_LATER: i64 = 2;
const FREES_TOO_LITTLE: i64 = 3;
const KEEPS_SCRATCH: i64 = 4;

/// The work of a handler's thread: waits for the test's signal, writes to memory, and completes a future.
struct Job {
    places: Vec<usize>,
    complete: Function<XLA_FFI_Future_SetAvailable_Args>,
    future: usize,
}

impl Job {
    fn run(self) {
        std::thread::sleep(Duration::from_millis(50));
        for place in self.places {
            // SAFETY: the host keeps results and scratch memory until the future is complete.
            unsafe { (place as *mut i64).write_volatile(7) };
        }
        let mut args = XLA_FFI_Future_SetAvailable_Args {
            struct_size: 24,
            extension_start: std::ptr::null_mut(),
            future: self.future as *mut _,
        };
        // SAFETY: the arguments struct is complete.
        assert!(unsafe { (self.complete)(&raw mut args) }.is_null());
    }
}

unsafe fn free(
    frame: *mut XLA_FFI_CallFrame,
    data: *mut c_void,
    size: usize,
) -> *mut XLA_FFI_Error {
    // SAFETY: the function in slot 10 has this type.
    let free: Function<XLA_FFI_DeviceMemory_Free_Args> = unsafe { slot(frame, 10) };
    let mut args = XLA_FFI_DeviceMemory_Free_Args {
        struct_size: XLA_FFI_DeviceMemory_Free_Args::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        // SAFETY: `frame` is a call frame of a host.
        ctx: unsafe { (*frame).ctx },
        size,
        data,
    };
    // SAFETY: the arguments struct is complete.
    unsafe { free(&raw mut args) }
}

unsafe fn later(frame: *mut XLA_FFI_CallFrame, places: Vec<usize>) {
    // SAFETY: `frame` is a call frame of a host of r10.
    let future = unsafe { future(frame) };
    // SAFETY: frames of r10 have the field `future`.
    unsafe { (*frame).future = future };
    let job = Job {
        places,
        // SAFETY: the function in slot 14 has this type.
        complete: unsafe { slot(frame, 14) },
        future: future as usize,
    };
    std::thread::spawn(move || job.run());
}

/// A handler with one argument, which selects the action, and one result. Both are `i64`.
unsafe extern "C" fn odd(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the call has one argument.
    let what = unsafe { arg(frame, 0) }.cast::<i64>();
    // SAFETY: the argument is an `i64`.
    let what = unsafe { what.read() };
    // SAFETY: the call has one result.
    let y = unsafe { ret(frame, 0) }.cast::<i64>();
    if what == FAILS {
        // SAFETY: `frame` is a call frame of a host.
        return unsafe { error(frame, 9, c"as it was told to") };
    }
    if what == WRITES_LATER {
        // SAFETY: `frame` is a call frame of a host.
        unsafe { later(frame, vec![y as usize]) };
        return std::ptr::null_mut();
    }
    if what == FREES_TOO_LITTLE || what == KEEPS_SCRATCH {
        // SAFETY: `frame` is a call frame of a host.
        let memory = match unsafe { allocate(frame) } {
            Ok(memory) => memory,
            Err(error) => return error,
        };
        if what == FREES_TOO_LITTLE {
            // SAFETY: `frame` is a call frame of a host.
            return unsafe { free(frame, memory, 4) };
        }
        // SAFETY: `frame` is a call frame of a host.
        unsafe { later(frame, vec![y as usize, memory as usize]) };
        return std::ptr::null_mut();
    }
    // SAFETY: the result is an `i64`.
    unsafe { y.write(7) };
    std::ptr::null_mut()
}

fn executable(revision: Revision) -> Executable {
    // SAFETY: `odd` is a handler.
    let bundle = unsafe { Bundle::execute(odd) };
    let handler = Runtime::new(revision).handler("odd", bundle).unwrap();
    handler.instantiate(&Attributes::new()).unwrap()
}

fn operands(call: Call, what: i64) -> Call {
    call.arg(Tensor::from_slice([], &[what]).unwrap())
        .ret(Shape::new(DType::S64, []).unwrap())
}

/// An allocator that counts allocations. It never frees memory, so that late writes of handlers cause no damage.
#[derive(Default)]
struct Ledger {
    living: Mutex<Vec<usize>>,
    freed: Mutex<Vec<usize>>,
}

// SAFETY: an allocator of the runtime returns the memory.
unsafe impl DeviceAllocator for Ledger {
    fn allocate(&self, _size: usize, alignment: usize) -> Option<*mut c_void> {
        let data = support::memory(alignment);
        self.living.lock().unwrap().push(data as usize);
        Some(data.cast())
    }

    unsafe fn free(&self, data: *mut c_void, _size: usize) {
        let mut living = self.living.lock().unwrap();
        let at = living.iter().position(|known| *known == data as usize);
        let data = living.remove(at.expect("freed twice"));
        self.freed.lock().unwrap().push(data);
    }
}

#[test]
fn memory_that_is_freed_as_less_than_it_is_is_told() {
    let (send, told) = mpsc::channel();
    // The test runs on a separate thread, because an incorrect host may deadlock.
    std::thread::spawn(move || {
        let ledger = Arc::new(Ledger::default());
        let call = executable(Revision::R10).call().allocator(ledger.clone());
        let error = operands(call, FREES_TOO_LITTLE).run().unwrap_err();
        send.send((error, ledger.living.lock().unwrap().len()))
    });
    let (error, living) = told
        .recv_timeout(Duration::from_secs(20))
        .expect("the host answers");
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(
        error
            .message()
            .contains("4 bytes are freed of an allocation of 8"),
        "{error}"
    );
    assert_eq!(
        living, 0,
        "what the handler did not free is freed behind the call"
    );
}

#[test]
fn scratch_memory_of_an_open_call_is_the_handlers() {
    let ledger = Arc::new(Ledger::default());
    let executable = executable(Revision::R10);
    let call = executable.call().allocator(ledger.clone());
    let mut call = operands(call, KEEPS_SCRATCH).prepare().unwrap();
    assert!(!call.start().unwrap());
    assert_eq!(
        ledger.freed.lock().unwrap().len(),
        0,
        "its thread writes there"
    );
    call.wait().unwrap();
    assert_eq!(ledger.freed.lock().unwrap().len(), 1);
    assert_eq!(ledger.living.lock().unwrap().len(), 0);
    // If the call is dropped before its handler is done, the memory is also freed once.
    assert!(!call.start().unwrap());
    drop(call);
    assert_eq!(ledger.freed.lock().unwrap().len(), 1);
    for _ in 0..500 {
        if ledger.freed.lock().unwrap().len() == 2 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the memory is never freed");
}

/// A handler that copies the byte of its argument to both results.
unsafe extern "C" fn copy_byte(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the argument has one byte, which contains one or two elements.
    let x = unsafe { arg(frame, 0) }.cast::<u8>();
    // SAFETY: the argument has one byte.
    let byte = unsafe { x.read() };
    for index in 0..2 {
        // SAFETY: the call has two results of one byte.
        let y = unsafe { ret(frame, index) }.cast::<u8>();
        // SAFETY: the call has two results of one byte.
        unsafe { y.write(byte) };
    }
    std::ptr::null_mut()
}

#[test]
fn packed_elements_are_the_same_however_results_are_read() {
    for revision in [Revision::R3, Revision::R4, Revision::R5, Revision::R10] {
        // SAFETY: `copy_byte` is a handler.
        let bundle = unsafe { Bundle::execute(copy_byte) };
        let handler = Runtime::new(revision).handler("copy", bundle).unwrap();
        let executable = handler.instantiate(&Attributes::new()).unwrap();
        let x =
            |byte: u8| Tensor::from_bytes(Shape::new(DType::S4, [2]).unwrap(), &[byte]).unwrap();
        let call = |byte| {
            executable
                .call()
                .arg(x(byte))
                .ret(Shape::new(DType::S4, [2]).unwrap())
                .ret(Shape::new(DType::U8, [1]).unwrap())
        };
        let seen = if revision < Revision::R5 { 0x21 } else { 0x12 };
        let mut prepared = call(0x12).prepare().unwrap();
        for _ in 0..2 {
            prepared.invoke().unwrap();
            assert_eq!(prepared.ret_bytes(0).unwrap(), [0x12], "{revision}");
            assert_eq!(prepared.ret_bytes(1).unwrap(), [seen], "{revision}");
        }
        prepared.set_args([x(0x34)]).unwrap();
        prepared.invoke().unwrap();
        assert_eq!(prepared.ret_bytes(0).unwrap(), [0x34], "{revision}");
        let rets = [(DType::S4, 2), (DType::U8, 1)];
        let rets = rets.map(|(dtype, count)| Shape::new(dtype, [count]).unwrap());
        prepared.set_operands([x(0x56)], rets).unwrap();
        prepared.invoke().unwrap();
        assert_eq!(prepared.ret_bytes(0).unwrap(), [0x56], "{revision}");
        assert_eq!(prepared.into_rets().unwrap()[0].bytes(), [0x56]);
        let displaced = call(0x12).run_displaced(Displaced::Argument(0)).unwrap();
        assert_eq!(displaced.rets[0].bytes(), [0x12], "{revision}");
        assert_eq!(displaced.rets[1].bytes(), [seen], "{revision}");
    }
}

#[test]
fn a_call_that_does_not_begin_leaves_its_results() {
    let executable = executable(Revision::R10);
    let y = Tensor::from_slice([], &[3_i64]).unwrap();
    let canceller = Canceller::new();
    canceller.cancel();
    let what = Tensor::from_slice([], &[0_i64]).unwrap();
    let call = executable.call().arg(what).ret_in(y);
    let call = call.unwritten(Unwritten::Refused).canceller(&canceller);
    let mut call = call.prepare().unwrap();
    assert_eq!(call.invoke().unwrap_err().code(), ErrorCode::Cancelled);
    assert_eq!(call.ret_bytes(0).unwrap(), 3_i64.to_ne_bytes());
}

#[test]
fn what_is_over_is_waited_for_before_it_is_read() {
    let executable = executable(Revision::R10);
    let mut call = operands(executable.call(), WRITES_LATER).prepare().unwrap();
    assert!(!call.start().unwrap());
    assert!(call.is_open());
    let open = call.ret_bytes(0).unwrap_err();
    assert!(open.message().contains("is open"), "{open}");
    for _ in 0..2000 {
        if !call.is_open() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let over = call.ret_bytes(0).unwrap_err();
    assert_eq!(over.code(), ErrorCode::FailedPrecondition);
    assert!(over.message().contains("wait for it"), "{over}");
    call.wait().unwrap();
    assert_eq!(call.ret_bytes(0).unwrap(), 7_i64.to_ne_bytes());
}

/// Callers can pass their own memory. Every function that sets operands must reject operands that overlap.
#[test]
fn operands_that_overlap_are_refused_wherever_they_are_set() {
    // SAFETY: `copy_byte` is a handler.
    let bundle = unsafe { Bundle::execute(copy_byte) };
    let handler = Runtime::default().handler("copy", bundle).unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    let mut memory = [0_u128; 4];
    let first: *mut u8 = memory.as_mut_ptr().cast();
    let at = |index: usize| -> *mut c_void { first.wrapping_add(index).cast() };
    let shape = || Shape::new(DType::U8, [2]).unwrap();
    let frame = |x, y, z| {
        let rets = [(shape(), at(y)), (shape(), at(z))];
        CallFrame::new(Revision::NEWEST, &[(shape(), at(x))], &rets).unwrap()
    };
    // SAFETY: the memory outlives the calls.
    let prepare = |frame| unsafe { executable.call().prepare_on(frame) };
    let mut call = prepare(frame(0, 2, 4)).unwrap();
    // A result may have exactly the memory of an argument.
    prepare(frame(0, 2, 0)).unwrap().invoke().unwrap();
    for (x, y, z) in [(0, 1, 4), (1, 0, 4), (0, 2, 3), (0, 4, 4), (4, 2, 5)] {
        let refused = [
            prepare(frame(x, y, z)).map(drop),
            // SAFETY: the memory outlives the calls.
            unsafe { call.update(&[at(x)], &[at(y), at(z)]) },
            // SAFETY: the memory outlives the calls.
            unsafe { call.set_frame(frame(x, y, z)) },
            // SAFETY: the memory outlives the calls.
            unsafe { call.try_clone_on(&[at(x)], &[at(y), at(z)]) }.map(drop),
        ];
        for outcome in refused {
            assert_eq!(
                outcome.unwrap_err().code(),
                ErrorCode::InvalidArgument,
                "{x} {y} {z}"
            );
        }
    }
    call.invoke().unwrap();
    let tensor = |index| {
        let shape = Shape::new(DType::U8, [32]).unwrap();
        // SAFETY: the memory outlives the tensors and the calls.
        unsafe { Tensor::from_raw(shape, at(index), ()) }.unwrap()
    };
    let run = |x, y| {
        let call = executable.call().arg(tensor(x));
        call.ret_in(tensor(y)).ret(shape()).run()
    };
    assert!(run(0, 32).is_ok());
    assert_eq!(run(0, 16).unwrap_err().code(), ErrorCode::InvalidArgument);
}
