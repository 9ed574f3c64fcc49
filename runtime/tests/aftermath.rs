//! What an execution leaves behind: memory that was freed wrongly, or is still used; results that were looked at and
//! were not read; and what the next execution of the same call sees of it.

mod support;

use std::ffi::c_void;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use support::handlers::{Function, arg, error, future, metadata, ret, slot};
use xla_ffi_runtime::{
    Attributes, Bundle, Call, CallFrame, Code, DType, DeviceAllocator, Executable, Hazard,
    Revision, Runtime, Shape, Tensor, Unwritten,
};
use xla_ffi_sys::{
    XLA_FFI_CallFrame, XLA_FFI_DeviceMemory_Allocate_Args, XLA_FFI_DeviceMemory_Free_Args,
    XLA_FFI_Error, XLA_FFI_Future_SetAvailable_Args,
};

// What the handler does, by its argument.
const FAILS: i64 = 1;
const WRITES_LATER: i64 = 2;
const FREES_TOO_LITTLE: i64 = 3;
const KEEPS_SCRATCH: i64 = 4;

/// Waits until the test says so, writes its memory and completes its future.
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
        // SAFETY: the arguments are whole.
        assert!(unsafe { (self.complete)(&raw mut args) }.is_null());
    }
}

/// Memory of eight bytes.
unsafe fn allocate(frame: *mut XLA_FFI_CallFrame) -> Result<*mut c_void, *mut XLA_FFI_Error> {
    // SAFETY: slot 9 allocates.
    let allocate: Function<XLA_FFI_DeviceMemory_Allocate_Args> = unsafe { slot(frame, 9) };
    let mut args = XLA_FFI_DeviceMemory_Allocate_Args {
        struct_size: XLA_FFI_DeviceMemory_Allocate_Args::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        // SAFETY: the frame is a host's.
        ctx: unsafe { (*frame).ctx },
        size: 8,
        alignment: 8,
        data: std::ptr::null_mut(),
    };
    // SAFETY: the arguments are whole.
    let error = unsafe { allocate(&raw mut args) };
    if error.is_null() {
        Ok(args.data)
    } else {
        Err(error)
    }
}

unsafe fn free(
    frame: *mut XLA_FFI_CallFrame,
    data: *mut c_void,
    size: usize,
) -> *mut XLA_FFI_Error {
    // SAFETY: slot 10 frees.
    let free: Function<XLA_FFI_DeviceMemory_Free_Args> = unsafe { slot(frame, 10) };
    let mut args = XLA_FFI_DeviceMemory_Free_Args {
        struct_size: XLA_FFI_DeviceMemory_Free_Args::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        // SAFETY: the frame is a host's.
        ctx: unsafe { (*frame).ctx },
        size,
        data,
    };
    // SAFETY: the arguments are whole.
    unsafe { free(&raw mut args) }
}

unsafe fn later(frame: *mut XLA_FFI_CallFrame, places: Vec<usize>) {
    // SAFETY: the frame is a host's of r10.
    let future = unsafe { future(frame) };
    // SAFETY: the frame of r10 has the field.
    unsafe { (*frame).future = future };
    let job = Job {
        places,
        // SAFETY: slot 14 completes futures.
        complete: unsafe { slot(frame, 14) },
        future: future as usize,
    };
    std::thread::spawn(move || job.run());
}

/// One argument, which says what happens, and one result; i64 both.
unsafe extern "C" fn odd(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the call has an argument.
    let what = unsafe { arg(frame, 0).cast::<i64>().read() };
    // SAFETY: the call has a result.
    let y = unsafe { ret(frame, 0) }.cast::<i64>();
    if what == FAILS {
        // SAFETY: the frame is a host's.
        return unsafe { error(frame, 9, c"as it was told to") };
    }
    if what == WRITES_LATER {
        // SAFETY: as above.
        unsafe { later(frame, vec![y as usize]) };
        return std::ptr::null_mut();
    }
    if what == FREES_TOO_LITTLE || what == KEEPS_SCRATCH {
        // SAFETY: as above.
        let memory = match unsafe { allocate(frame) } {
            Ok(memory) => memory,
            Err(error) => return error,
        };
        if what == FREES_TOO_LITTLE {
            // SAFETY: as above.
            return unsafe { free(frame, memory, 4) };
        }
        // SAFETY: as above.
        unsafe { later(frame, vec![y as usize, memory as usize]) };
        return std::ptr::null_mut();
    }
    // SAFETY: an i64.
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

/// Says what is allocated and freed, and fills with ones what is freed.
#[derive(Default)]
struct Ledger {
    living: Mutex<Vec<Box<[u64; 1]>>>,
    freed: Mutex<Vec<Box<[u64; 1]>>>,
}

impl DeviceAllocator for Ledger {
    fn allocate(&self, _size: usize, _alignment: usize) -> Option<*mut c_void> {
        let mut memory = Box::new([0]);
        let data: *mut c_void = memory.as_mut_ptr().cast();
        self.living.lock().unwrap().push(memory);
        Some(data)
    }

    fn free(&self, data: *mut c_void, _size: usize) {
        let mut living = self.living.lock().unwrap();
        let at = living
            .iter()
            .position(|memory| std::ptr::eq(memory.as_ptr().cast(), data));
        let memory = living.remove(at.expect("freed twice"));
        self.freed.lock().unwrap().push(memory);
    }
}

#[test]
fn memory_that_is_freed_as_less_than_it_is_is_told() {
    let (send, told) = mpsc::channel();
    // A thread, because the host may wait for itself.
    std::thread::spawn(move || {
        let ledger = Arc::new(Ledger::default());
        let call = executable(Revision::R10).call().allocator(ledger.clone());
        let error = operands(call, FREES_TOO_LITTLE).run().unwrap_err();
        send.send((error, ledger.living.lock().unwrap().len()))
    });
    let (error, living) = told
        .recv_timeout(Duration::from_secs(20))
        .expect("the host answers");
    assert_eq!(error.code(), Code::InvalidArgument);
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
    // And where the call goes before its handler is done.
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

#[test]
fn what_one_execution_left_unwritten_is_not_held_against_another() {
    let executable = executable(Revision::R10);
    let shape = Shape::new(DType::S64, []).unwrap();
    let frame = |what: &mut i64, y: &mut i64| {
        let what: *mut i64 = what;
        let y: *mut i64 = y;
        CallFrame::new(
            Revision::R10,
            &[(shape.clone(), what.cast())],
            &[(shape.clone(), y.cast())],
        )
        .unwrap()
    };
    let (mut fails, mut later) = (FAILS, WRITES_LATER);
    let mut first = Box::new(0_i64);
    let refused = executable.call().unwritten(Unwritten::Refused);
    // SAFETY: both live until the call has run.
    let mut call = unsafe { refused.prepare_on(frame(&mut fails, &mut first)) }.unwrap();
    assert_eq!(call.invoke().unwrap_err().message(), "as it was told to");
    // That memory goes; the next execution is on another, and nobody is to look for anything.
    let mut second = 0_i64;
    // SAFETY: as above.
    unsafe { call.renew_on(executable.call(), frame(&mut later, &mut second)) }.unwrap();
    let gone = call.invoke();
    assert!(
        !gone.as_ref().is_err_and(|e| e.has(Hazard::UnwrittenResult)),
        "{gone:?}"
    );
    gone.unwrap();
    assert_eq!(second, 7);
    drop(first);
}
