//! Tests of stream-ordered handlers on a CPU device, whose stream is a thread.

mod support;

use std::ffi::c_void;
use support::{Function, arg, metadata, ret, slot, stream};
use xla_ffi_runtime::{
    Attributes, Bundle, CallFrame, CpuDevice, CpuStream, DType, DeviceStream, Runtime, Shape,
    Tensor, Unwritten,
};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_DeviceMemory_Allocate_Args, XLA_FFI_Error};

struct Addresses(*const f32, *mut f32, *mut f32);

// SAFETY: the operands are valid until the stream has run the work.
unsafe impl Send for Addresses {}

impl Addresses {
    /// Computes scratch = 2 x and y = scratch + 1.
    fn work(self) {
        std::thread::sleep(std::time::Duration::from_millis(20));
        // SAFETY: each pointer refers to an `f32` that the host keeps until the stream has run the work.
        let x = unsafe { self.0.read() };
        // SAFETY: each pointer refers to an `f32` that the host keeps until the stream has run the work.
        unsafe { self.2.write(2.0 * x) };
        // SAFETY: each pointer refers to an `f32` that the host keeps until the stream has run the work.
        let doubled = unsafe { self.2.read() };
        // SAFETY: each pointer refers to an `f32` that the host keeps until the stream has run the work.
        unsafe { self.1.write(doubled + 1.0) };
    }
}

unsafe extern "C" fn launches(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: `frame` is a call frame of a host.
    let stream = match unsafe { stream(frame) } {
        Ok(stream) => stream,
        Err(failed) => return failed,
    };
    // SAFETY: the function in slot 9 has this type.
    let allocate: Function<XLA_FFI_DeviceMemory_Allocate_Args> = unsafe { slot(frame, 9) };
    let mut memory = XLA_FFI_DeviceMemory_Allocate_Args {
        struct_size: 48,
        extension_start: std::ptr::null_mut(),
        // SAFETY: `frame` is a call frame of a host.
        ctx: unsafe { (*frame).ctx },
        size: 4,
        alignment: 4,
        data: std::ptr::null_mut(),
    };
    // SAFETY: the arguments struct is complete.
    let failed = unsafe { allocate(&raw mut memory) };
    if !failed.is_null() {
        return failed;
    }
    // SAFETY: the call has one argument.
    let x: *mut c_void = unsafe { arg(frame, 0) };
    // SAFETY: the call has one result.
    let y = unsafe { ret(frame, 0) };
    let stream = CpuStream::from_handle(stream).expect("a CPU stream");
    let addresses = Addresses(x.cast(), y.cast(), memory.data.cast());
    stream.enqueue(Box::new(move || addresses.work()));
    std::ptr::null_mut()
}

#[test]
fn results_and_scratch_memory_wait_for_the_stream() {
    let runtime = Runtime::default();
    // SAFETY: `launches` is a handler.
    let bundle = unsafe { Bundle::execute(launches) };
    let handler = runtime.handler("launches", bundle).unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    let device = CpuDevice::new().unwrap();
    let call = || {
        executable
            .call()
            .arg(Tensor::from_slice([1], &[3.0_f32]).unwrap())
            .ret(Shape::new(DType::F32, [1]).unwrap())
    };
    // A result is not unwritten if work on the stream writes it after the handler returns.
    let outcome = call()
        .unwritten(Unwritten::Refused)
        .on_device(&device)
        .run()
        .unwrap();
    assert_eq!(outcome.rets[0].to_vec::<f32>().unwrap(), [7.0]);
    let mut kept = call().on_device(&device).prepare().unwrap();
    for _ in 0..3 {
        kept.invoke().unwrap();
    }
    // The operands of a dropped call are kept until the stream has run the call's work.
    drop(kept);
    device.stream.synchronize().unwrap();
    assert_eq!(device.allocator.living(), 0);
    assert!(call().run().unwrap_err().message().contains("stream"));
}

/// The second call writes to the argument of the first call, whose work has not run yet. The order of the stream
/// makes this valid. The check for unwritten results must therefore not fill the argument before the first call's
/// work has run.
#[test]
fn what_is_queued_reads_its_argument_though_a_later_call_is_looked_through() {
    let runtime = Runtime::default();
    // SAFETY: `launches` is a handler.
    let bundle = unsafe { Bundle::execute(launches) };
    let handler = runtime.handler("launches", bundle).unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    let device = CpuDevice::new().unwrap();
    let one = || Shape::new(DType::F32, [1]).unwrap();
    let (first, second, last) = (&mut [3.0_f32], &mut [10.0_f32], &mut [0.0_f32]);
    let (first, second, last) = (
        first.as_mut_ptr().cast::<c_void>(),
        second.as_mut_ptr().cast(),
        last.as_mut_ptr().cast(),
    );
    let mut kept = vec![];
    for (x, y, unwritten) in [
        (first, last, Unwritten::Allowed),
        (second, first, Unwritten::Refused),
    ] {
        let frame = CallFrame::new(runtime.revision(), &[(one(), x)], &[(one(), y)]).unwrap();
        let call = executable.call().on_device(&device).unwritten(unwritten);
        // SAFETY: the arrays exist until the stream has run the work of the calls.
        let mut call = unsafe { call.prepare_on(frame) }.unwrap();
        call.invoke().unwrap();
        kept.push(call);
    }
    device.stream.synchronize().unwrap();
    // SAFETY: the stream has run the work of the calls.
    assert_eq!(unsafe { last.cast::<f32>().read() }, 7.0);
    // SAFETY: the stream has run the work of the calls.
    assert_eq!(unsafe { first.cast::<f32>().read() }, 21.0);
}
