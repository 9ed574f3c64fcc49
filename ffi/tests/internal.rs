//! The internal API: handlers linked with the runtime get its own objects; on any other host they
//! refuse.

use std::sync::Arc;

use xla_ffi::internal::{Code, Error, Invocation, Status, bundle};
use xla_ffi::prelude::*;
use xla_ffi::{Future, Later};
use xla_ffi_runtime::{
    Attributes, Bundle, CpuStream, DType, HostAllocator, Revision, Runtime, Shape, Stage, Tensor,
};
use xla_ffi_sys::{XLA_FFI_Api, XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_InternalApi};

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

/// A cause whose destructor panics.
#[derive(Debug, thiserror::Error)]
#[error("a bomb")]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the destructor of a cause");
    }
}

#[xla_ffi::handler]
fn fails_behind_its_promise(later: Later) -> Result<Future, Status> {
    let (promise, _future) = later.promise(());
    promise.complete(Ok(()));
    Err(Error::new(Code::DataLoss, "the file is gone").with_source(Bomb))?
}

#[test]
fn what_a_status_owns_may_panic_when_it_is_destroyed() {
    let call = xla_ffi::internal::call::<fails_behind_its_promise>("{}").expect("a call");
    let error = call.run().expect_err("it fails");
    assert!(error.message().contains("the file is gone"), "{error}");
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
    let answer = unsafe { xla_ffi_runtime::internal::Invocation::from_frame(&raw const frame) };
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
