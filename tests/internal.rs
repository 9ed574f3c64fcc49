//! The internal API: handlers linked with the runtime get its own objects; on any other host they
//! refuse.

use std::sync::Arc;

use xla_ffi::internal::{Code, Error, Invocation, Status, bundle};
use xla_ffi::prelude::*;
use xla_ffi_runtime::{Attributes, CpuStream, DType, HostAllocator, Revision, Runtime, Shape};
use xla_ffi_sys::{XLA_FFI_Api, XLA_FFI_CallFrame, XLA_FFI_InternalApi};

#[derive(Debug, thiserror::Error)]
#[error("the disk is on fire")]
struct Cause;

#[xla_ffi::handler]
fn rich(mut y: Out<i64, 1>, call: Invocation) -> Result<(), Status> {
    let computation: &i64 = call
        .called_computation()
        .ok_or_else(|| Error::new(Code::NotFound, "no computation"))?;
    let stream = call.stream().map_or(0, |stream| stream.handle() as i64);
    let (sender, receiver) = std::sync::mpsc::channel();
    call.spawn(move || sender.send(42).expect("the handler waits"))?;
    let from_pool = receiver
        .recv()
        .map_err(|_| Error::new(Code::Internal, "no answer"))?;
    y.copy_from(&[
        call.run_id(),
        *computation,
        stream,
        i64::from(call.device_allocator().is_some()),
        from_pool,
        call.custom_options().len() as i64,
    ])?;
    Ok(())
}

#[xla_ffi::handler]
fn failing(_y: Out<f32>, _call: Invocation) -> Result<(), Status> {
    Err(Error::new(Code::DataLoss, "the file cannot be read").with_source(Cause))?
}

#[test]
fn the_runtimes_own_objects_reach_the_handler() {
    let runtime = Runtime::new(Revision::R10);
    let handler = runtime
        .handler("rich", bundle::<rich>())
        .expect("it registers");
    let executable = handler
        .instantiate(&Attributes::new())
        .expect("it has no state");
    let stream = CpuStream::new().expect("a stream").stream();
    let outcome = executable
        .call()
        .run_id(7)
        .stream(stream)
        .allocator(Arc::new(HostAllocator::default()))
        .called_computation(Arc::new(5_i64))
        .custom_options(&Attributes::new().with("speed", 1_i64))
        .ret(Shape::new(DType::S64, [6]).expect("a shape"))
        .run();
    // The result lies in host memory, which a host handler refuses beside a stream.
    let error = outcome.expect_err("a stream and host operands");
    assert_eq!(error.code(), Code::FailedPrecondition);
    let outcome = executable
        .call()
        .run_id(7)
        .called_computation(Arc::new(5_i64))
        .custom_options(&Attributes::new().with("speed", 1_i64))
        .allocator(Arc::new(HostAllocator::default()))
        .ret(Shape::new(DType::S64, [6]).expect("a shape"))
        .run()
        .expect("it runs");
    assert_eq!(
        outcome.rets[0].to_vec::<i64>(),
        Some(vec![7, 5, 0, 1, 42, 1])
    );
}

#[test]
fn an_error_keeps_its_cause() {
    let runtime = Runtime::new(Revision::R10);
    let handler = runtime
        .handler("failing", bundle::<failing>())
        .expect("it registers");
    let executable = handler
        .instantiate(&Attributes::new())
        .expect("it has no state");
    let shape = Shape::new(DType::F32, [1]).expect("a shape");
    let error = executable.call().ret(shape).run().expect_err("it fails");
    assert_eq!(error.code(), Code::DataLoss);
    assert!(error.message().contains("the file cannot be read"));
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = cause {
        if error.is::<Cause>() {
            return;
        }
        cause = error.source();
    }
    panic!("the cause is lost: {error:?}");
}

#[test]
fn another_hosts_frame_is_refused_untouched() {
    // A host that is not the runtime: its own table with the runtime's functions, and a private
    // table at another address. The context is a pointer that faults when it is followed.
    let runtime = Runtime::new(Revision::R10);
    // SAFETY: a whole table, copied.
    let mut api: XLA_FFI_Api = unsafe { runtime.api().read() };
    let private = 0_u64;
    api.internal_api = std::ptr::from_ref(&private).cast::<XLA_FFI_InternalApi>();
    let mut y = [0.0_f32; 4];
    let mut dims = [4_i64];
    let mut buffer = xla_ffi_sys::XLA_FFI_Buffer {
        struct_size: 48,
        extension_start: std::ptr::null_mut(),
        dtype: xla_ffi_sys::XLA_FFI_DataType::F32,
        data: y.as_mut_ptr().cast(),
        rank: 1,
        dims: dims.as_mut_ptr(),
    };
    let mut types = [xla_ffi_sys::XLA_FFI_RetType::BUFFER];
    let mut rets = [std::ptr::from_mut(&mut buffer).cast()];
    let mut frame = XLA_FFI_CallFrame {
        struct_size: 168,
        extension_start: std::ptr::null_mut(),
        api: &raw const api,
        ctx: std::ptr::null_mut(),
        stage: xla_ffi_sys::XLA_FFI_ExecutionStage::EXECUTE,
        args: xla_ffi_sys::XLA_FFI_Args {
            struct_size: 40,
            extension_start: std::ptr::null_mut(),
            size: 0,
            types: std::ptr::null_mut(),
            args: std::ptr::null_mut(),
        },
        rets: xla_ffi_sys::XLA_FFI_Rets {
            struct_size: 40,
            extension_start: std::ptr::null_mut(),
            size: 1,
            types: types.as_mut_ptr(),
            rets: rets.as_mut_ptr(),
        },
        attrs: xla_ffi_sys::XLA_FFI_Attrs {
            struct_size: 48,
            extension_start: std::ptr::null_mut(),
            size: 0,
            types: std::ptr::null_mut(),
            names: std::ptr::null_mut(),
            attrs: std::ptr::null_mut(),
        },
        future: std::ptr::null_mut(),
    };
    // SAFETY: a whole frame.
    let answer = unsafe { xla_ffi_runtime::internal::Invocation::of(&raw const frame) };
    let error = answer.expect_err("the address is not this image's");
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.message().contains("another host"));
    // SAFETY: as above.
    let raised = unsafe { xla_ffi::__private::entry::<failing, 3>(&raw mut frame) };
    assert!(!raised.is_null(), "the handler refuses");
    let mut args = xla_ffi_sys::XLA_FFI_Error_Destroy_Args {
        struct_size: 24,
        extension_start: std::ptr::null_mut(),
        error: raised,
    };
    let destroy = api.XLA_FFI_Error_Destroy.expect("the runtime has it");
    // SAFETY: the error that was just made.
    unsafe { destroy(&raw mut args) };
}
