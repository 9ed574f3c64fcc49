//! Calls of handlers: the API to pass operands, run stages, and get results.

mod body;
mod invoke;
mod misaligned;
#[cfg(feature = "cuda")]
mod on_cuda;
mod prepared;
mod request;
mod settings;
pub(crate) mod unwritten;
mod waiting;

pub use misaligned::Displaced;
pub use prepared::PreparedCall;
pub use request::{Ret, Stages, Unwritten};
pub use settings::Settings;

use self::request::Request;
use crate::context::{Canceller, UserData};
use crate::device::{DeviceAllocator, Stream};
use crate::frame::encoded::Encoded;
use crate::frame::{CallFrame, Stage};
use crate::handler::Executable;
use crate::host::Executor;
use crate::value::{Attributes, Tensor};
use std::sync::Arc;
use std::time::Duration;
use xla_ffi_sys::Result;
use xla_ffi_sys::{Revision, XLA_FFI_Extension};

/// A call under construction.
///
/// ```
/// # use std::ffi::c_void;
/// # use xla_ffi_runtime::{Attributes, Bundle, DType, Revision, Runtime, Shape, Tensor};
/// # use xla_ffi_sys::{XLA_FFI_Buffer, XLA_FFI_CallFrame, XLA_FFI_Error};
/// # type Frame = XLA_FFI_CallFrame;
/// /// Computes y = 2 x, like a handler that a library exports.
/// unsafe extern "C" fn double(frame: *mut Frame) -> *mut XLA_FFI_Error {
///     // SAFETY: the host passes a complete frame, with one argument and one result.
///     let (args, rets) = unsafe { ((*frame).args.args, (*frame).rets.rets) };
///     // SAFETY: the operands are buffers.
///     let (x, y) = unsafe { ((*args).cast::<XLA_FFI_Buffer>(), (*rets).cast::<XLA_FFI_Buffer>()) };
///     // SAFETY: both buffers contain one f32.
///     unsafe { *(*y).data.cast::<f32>() = 2.0 * *(*x).data.cast::<f32>() };
///     std::ptr::null_mut()
/// }
///
/// # fn main() -> xla_ffi_runtime::Result<()> {
/// // SAFETY: the function is a handler.
/// let bundle = unsafe { Bundle::execute(double) };
/// let handler = Runtime::new(Revision::R0).handler("double", bundle)?;
/// let executable = handler.instantiate(&Attributes::new())?;
/// let call = || -> xla_ffi_runtime::Result<_> {
///     let call = executable.call().arg(Tensor::from_slice([], &[21.0_f32])?);
///     Ok(call.ret(Shape::new(DType::F32, [])?).run_id(7))
/// };
/// assert_eq!(call()?.run()?.rets[0].to_vec(), Some(vec![42.0_f32]));
///
/// // A prepared call can run many times, as in `xla-ffi bench`.
/// let mut prepared = call()?.prepare()?;
/// for _ in 0..3 {
///     prepared.invoke()?;
/// }
/// assert_eq!(prepared.ret_bytes(0)?, 42.0_f32.to_ne_bytes());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Call {
    // Fields are dropped in order: the executable's library must stay loaded until the request's state is destroyed.
    pub(crate) request: Box<Request>,
    pub(crate) executable: Executable,
}

/// The outcome of a successful call.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The results of the call, in order.
    pub rets: Vec<Tensor>,
}

impl Executable {
    /// Returns true if a call runs stages other than execute.
    fn runs_more(&self, stages: Stages) -> bool {
        self.runs(Stage::Prepare, stages) || self.runs(Stage::Initialize, stages)
    }

    /// Returns true if a call runs this stage in addition to execute.
    fn runs(&self, stage: Stage, stages: Stages) -> bool {
        stages == Stages::All
            && self.handler().shared.revision != Revision::R0
            && self.handler().bundle.get(stage).is_some()
    }

    /// Returns a call without operands.
    #[inline]
    #[must_use]
    pub fn call(&self) -> Call {
        Call::new(self.clone())
    }
}

impl Call {
    #[inline]
    fn new(executable: Executable) -> Self {
        Self {
            request: Box::default(),
            executable,
        }
    }

    /// Adds an argument to the call.
    #[inline]
    #[must_use]
    pub fn arg(mut self, tensor: Tensor) -> Self {
        self.request.args.push(tensor);
        self
    }

    /// Adds arguments to the call, like [`Call::arg`].
    #[must_use]
    pub fn args(mut self, tensors: impl IntoIterator<Item = Tensor>) -> Self {
        self.request.args.extend(tensors);
        self
    }

    /// Adds a result. A result from a shape gets new memory that is initialised with zeros; for other memory, see
    /// [`Ret`].
    #[inline]
    #[must_use]
    pub fn ret(mut self, ret: impl Into<Ret>) -> Self {
        self.request.rets.push(ret.into());
        self
    }

    /// Adds a result in the memory of a tensor. The elements do not change until the handler writes them. The tensor
    /// must not share memory with a different tensor. Before r5, elements of less than a byte are `UNIMPLEMENTED`,
    /// because those hosts pack such elements in a different order.
    #[must_use]
    pub fn ret_in(mut self, tensor: Tensor) -> Self {
        self.request.rets.push(Ret::In(tensor));
        self
    }

    /// Adds a result in the memory of argument `index`, like JAX's `input_output_aliases`.
    #[must_use]
    pub fn ret_alias(mut self, index: usize) -> Self {
        self.request.rets.push(Ret::Alias(index));
        self
    }

    /// Sets the run id, the number of the execution. The default is 0.
    #[must_use]
    pub fn run_id(mut self, run_id: i64) -> Self {
        self.request.parts.run_id = run_id;
        self
    }

    /// Sets the device ordinal, the device's global number. The default is 0.
    #[must_use]
    pub fn device_ordinal(mut self, ordinal: i32) -> Self {
        self.request.parts.device_ordinal = ordinal;
        self
    }

    /// Removes the thread pool, as on a device other than a CPU.
    #[must_use]
    pub fn without_thread_pool(mut self) -> Self {
        self.request.parts.thread_pool = false;
        self
    }

    /// Runs the handler's thread-pool tasks and, from r9, the bodies of `async fn` handlers on the program's
    /// executor. By default, the bodies run on threads of the handler's library. A blocking body occupies one of the
    /// executor's threads.
    #[must_use]
    pub fn executor(mut self, executor: impl Into<Option<Arc<dyn Executor>>>) -> Self {
        self.request.parts.executor = executor.into();
        self
    }

    /// Sets the platform's stream. By default, the call has no stream.
    #[must_use]
    pub fn stream(mut self, stream: Stream) -> Self {
        self.request.parts.stream = Some(stream);
        self
    }

    /// Sets the stream and the allocator to those of a CPU device, whose stream is a thread. Removes the thread pool.
    #[must_use]
    pub fn on_device(self, device: &crate::device::CpuDevice) -> Self {
        self.stream(device.stream.stream())
            .allocator(device.allocator.clone())
            .without_thread_pool()
    }

    /// Sets the allocator for scratch memory. By default, the call has no allocator.
    #[must_use]
    pub fn allocator(mut self, allocator: Arc<dyn DeviceAllocator>) -> Self {
        self.request.parts.allocator = Some(allocator);
        self
    }

    /// Sets the user data, which must belong to the handler's runtime. With data of a different runtime, preparing or
    /// running the call fails.
    #[must_use]
    pub fn user_data(mut self, user_data: impl Into<Arc<UserData>>) -> Self {
        self.request.parts.user_data = Some(user_data.into());
        self
    }

    /// Sets the custom options of this execution. Handlers can read them from r10.
    #[must_use]
    pub fn custom_options(mut self, options: &Attributes) -> Self {
        self.request.parts.custom_options = Some(Encoded::new(
            options,
            self.executable.handler().shared.revision,
        ));
        self
    }

    /// Adds an extension to the context. Handlers can find it from r9.
    ///
    /// # Safety
    /// The extension must stay valid and unchanged while this call, a prepared call made from it, or a clone of the
    /// prepared call exists.
    #[must_use]
    pub unsafe fn extension(mut self, extension: *const XLA_FFI_Extension) -> Self {
        self.request.parts.extensions.push(extension);
        self
    }

    /// Sets the called computation, for handlers of the internal API.
    #[must_use]
    pub fn called_computation(mut self, computation: Arc<dyn std::any::Any + Send + Sync>) -> Self {
        self.request.parts.called_computation = Some(computation);
        self
    }

    /// Sets the collectives of the call. Handlers can find them from r9.
    #[must_use]
    pub fn collectives(mut self, collectives: Arc<crate::api::Collectives>) -> Self {
        self.request
            .parts
            .extensions
            .push_owned(collectives.extension(), collectives.clone());
        self
    }

    /// Sets the stages that run in addition to execute.
    #[must_use]
    pub fn stages(mut self, stages: Stages) -> Self {
        self.request.rules.stages = stages;
        self
    }

    /// Sets the time limit of each execution, from its start.
    ///
    /// **A synchronous handler blocks its caller beyond the limit** until the handler returns, because a running
    /// function cannot be interrupted. Handlers that run for a long time must poll
    /// ([`Invocation::cancelled`](crate::internal::Invocation::cancelled), or `xla_ffi::Cancellation` from r9 on) or
    /// be asynchronous.
    ///
    /// After the limit, [`PreparedCall::wait`] returns `DEADLINE_EXCEEDED` while an asynchronous handler continues.
    /// Handlers that poll learn that the call is cancelled, and a stage that has not started is refused. If the
    /// handler succeeds later, its results are still accepted. With `None`, the runtime waits forever. By default, it
    /// waits 60 s for asynchronous handlers and does not cancel the call.
    #[must_use]
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.request.rules.time_limit = Some(limit);
        self
    }

    /// Makes the call cancellable. Handlers can poll for the cancellation from r9, and handlers of the internal API
    /// on every revision. A stage that has not started is refused as `CANCELLED`. A cancellation neither stops a
    /// running handler nor ends a wait for the call.
    #[must_use]
    pub fn canceller<'c>(mut self, canceller: impl Into<Option<&'c Canceller>>) -> Self {
        self.request.parts.canceller = canceller.into().cloned();
        self
    }

    /// Sets whether a call with unwritten results fails. By default, such results are accepted. To detect unwritten
    /// results, the runtime fills the results with random bytes before each execution. If eight or more consecutive
    /// bytes are unchanged after a success, the call fails with
    /// [`Hazard::UnwrittenResult`](crate::Hazard::UnwrittenResult), which names the result and the element.
    ///
    /// Shorter gaps are not detected, except in results of four to seven bytes of which no byte was written. Results
    /// in the memory of an argument or of a different result, scratch memory, and the results of failed executions
    /// are not checked.
    #[must_use]
    pub fn unwritten(mut self, unwritten: Unwritten) -> Self {
        self.request.rules.unwritten = unwritten;
        self
    }

    /// Creates the call frame and runs the stages before execute. The returned call can be run many times.
    ///
    /// # Errors
    /// Element types that the revision does not support, memory that cannot be allocated, and errors of the stages.
    #[inline]
    pub fn prepare(self) -> Result<PreparedCall> {
        PreparedCall::new(self, None)
    }

    /// Prepares the call like [`Call::prepare`], on a frame whose operands the caller owns. Arguments and results
    /// that were added to this call are ignored. The frame gets the executable's attributes.
    ///
    /// # Errors
    /// A frame of a different revision, and errors of the stages.
    ///
    /// # Safety
    /// While executions run, the frame's data pointers must point to memory of the shapes' sizes, readable for
    /// arguments and writable for results. An open execution ([`PreparedCall::is_open`]) runs until
    /// [`PreparedCall::wait`] or [`PreparedCall::on_end`] reports its end; dropping the call does not end it. Work
    /// that handlers put on the call's stream uses the memory until the stream has run the work. Elements of less
    /// than a byte must be packed as the revision's hosts pack them: before r5, the first element is in the high
    /// bits. If unwritten results are refused ([`Call::unwritten`]), the results must be in host memory.
    pub unsafe fn prepare_on(mut self, frame: CallFrame) -> Result<PreparedCall> {
        frame.check_revision(self.executable.handler().shared.revision)?;
        self.request.args.clear();
        self.request.rets.clear();
        PreparedCall::new(self, Some(frame))
    }

    /// Runs the call and waits until it is complete.
    ///
    /// # Errors
    /// The handler's error, refusals by the host, hazards, and `DEADLINE_EXCEEDED` if a future is not completed in
    /// time. After a timeout, the runtime keeps the operands until the future is completed, because the handler may
    /// still write them.
    #[inline]
    pub fn run(self) -> Result<Outcome> {
        let mut call = self.prepare()?;
        call.invoke()?;
        Ok(Outcome {
            rets: call.into_rets()?,
        })
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("handler", self.executable.handler())
            .field("args", &self.request.args)
            .finish_non_exhaustive()
    }
}
