//! Tests the internal API: handlers that are linked with the runtime receive the runtime's objects.
//! On other hosts, these handlers reject the call.

use std::sync::Arc;

use xla_ffi::prelude::*;
use xla_ffi::{
    Error, ErrorCode,
    embed::{Invocation, bundle},
};
use xla_ffi_runtime::{Attributes, CpuStream, DType, HostAllocator, Revision, Runtime, Shape};

#[derive(Debug, thiserror::Error)]
#[error("the disk is on fire")]
struct Cause;

#[xla_ffi::handler]
fn rich(mut y: Out<i64, 1>, call: Invocation) -> Result<()> {
    let computation: &i64 = call
        .called_computation()
        .ok_or_else(|| Error::new(ErrorCode::NotFound, "no computation"))?;
    let stream = call.stream().map_or(0, |stream| stream.handle() as i64);
    let (sender, receiver) = std::sync::mpsc::channel();
    call.spawn(move || sender.send(42).expect("the handler waits"))?;
    let from_pool = receiver
        .recv()
        .map_err(|_| Error::new(ErrorCode::Internal, "no answer"))?;
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
fn failing(_y: Out<f32>, _call: Invocation) -> Result<()> {
    Err(Error::new(ErrorCode::DataLoss, "the file cannot be read").with_source(Cause))
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
    // A handler for host memory rejects a call with a device stream.
    let error = outcome.expect_err("a stream and host operands");
    assert_eq!(error.code(), ErrorCode::FailedPrecondition);
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
    assert_eq!(error.code(), ErrorCode::DataLoss);
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
