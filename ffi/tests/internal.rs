//! The internal API: handlers linked with the runtime get its own objects; on any other host they
//! refuse.

use std::sync::Arc;

use xla_ffi::internal::{Code, Error, Invocation, Status, bundle};
use xla_ffi::prelude::*;
use xla_ffi_runtime::{
    Attributes, Bundle, CpuStream, DType, HostAllocator, Revision, Runtime, Shape, Stage, Tensor,
};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error};

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

#[derive(Debug)]
struct Plan {
    steps: i64,
    dropped: Arc<std::sync::atomic::AtomicI64>,
}

impl Drop for Plan {
    fn drop(&mut self) {
        self.dropped
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

/// Answers with what `work` says, or with its error.
unsafe fn with_invocation(
    frame: *mut XLA_FFI_CallFrame,
    work: impl FnOnce(&xla_ffi_runtime::internal::Invocation<'_>) -> Result<(), Error>,
) -> *mut XLA_FFI_Error {
    // SAFETY: the runtime's frame.
    let extension = unsafe { (*frame).extension_start };
    if !extension.is_null() {
        let extension = extension.cast::<xla_ffi_sys::XLA_FFI_Metadata_Extension>();
        // SAFETY: the one extension of this runtime's frames.
        let metadata = unsafe { (*extension).metadata };
        // SAFETY: the runtime's metadata is writable.
        let version = unsafe { &mut (*metadata).api_version };
        (version.major_version, version.minor_version) = (0, 1);
        return std::ptr::null_mut();
    }
    // SAFETY: the runtime's frame.
    let done = unsafe { xla_ffi_runtime::internal::Invocation::from_frame(frame) }
        .and_then(|invocation| work(&invocation));
    match done {
        Ok(()) => std::ptr::null_mut(),
        Err(error) => xla_ffi_runtime::internal::raise(error),
    }
}

type Dropped = Arc<std::sync::atomic::AtomicI64>;
static DROPPED: std::sync::LazyLock<Dropped> = std::sync::LazyLock::new(Dropped::default);

unsafe extern "C" fn plan(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the runtime's frame.
    unsafe {
        with_invocation(frame, |call| {
            let plan = |steps| Plan {
                steps,
                dropped: DROPPED.clone(),
            };
            call.set_state(plan(3))?;
            // A second one is refused, and dropped.
            let again = call.set_state(plan(4)).expect_err("it is set");
            assert_eq!(again.code(), Code::FailedPrecondition);
            Ok(())
        })
    }
}

unsafe extern "C" fn follow(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the runtime's frame.
    unsafe {
        with_invocation(frame, |call| {
            let text = |shapes: Vec<Shape>| {
                let texts: Vec<_> = shapes.iter().map(ToString::to_string).collect();
                texts.join(" ")
            };
            assert_eq!(text(call.arg_shapes()?), "bf16[2,0] token");
            assert_eq!(text(call.ret_shapes()?), "s64[]");
            assert_eq!(call.ret_shapes()?[0].dtype(), DType::S64);
            let stage = Stage::Instantiate;
            let other = call.state::<String>(stage).expect_err("it is a plan");
            assert_eq!(other.code(), Code::InvalidArgument);
            let none = call
                .state::<Plan>(Stage::Prepare)
                .expect_err("there is none");
            assert_eq!(none.code(), Code::NotFound);
            assert_eq!(call.state::<Plan>(stage)?.steps, 3);
            let late = call.set_state(1_i64).expect_err("not in execute");
            assert_eq!(late.code(), Code::InvalidArgument);
            Ok(())
        })
    }
}

#[test]
fn state_shapes_and_types_are_the_runtimes_own() {
    let runtime = Runtime::new(Revision::R10);
    // SAFETY: a handler of this image.
    let bundle = unsafe { Bundle::execute(follow) };
    // SAFETY: as above.
    let bundle = unsafe { bundle.with(Stage::Instantiate, plan) };
    let handler = runtime.handler("follow", bundle).expect("it registers");
    let attributes = Attributes::new();
    let executable = handler.instantiate(&attributes).expect("it plans");
    let shape = |dtype, dims: &[i64]| Shape::new(dtype, dims).expect("a shape");
    for _ in 0..2 {
        executable
            .call()
            .arg(Tensor::zeros(shape(DType::BF16, &[2, 0])).expect("memory"))
            .arg(Tensor::zeros(shape(DType::Token, &[])).expect("memory"))
            .ret(shape(DType::S64, &[]))
            .run()
            .expect("it follows");
    }
    let dropped = || DROPPED.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(dropped(), 1);
    drop(executable);
    assert_eq!(dropped(), 2);
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
