//! Calls: pass operands, run stages, return results.

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
/// /// y = 2 x, in place of what a library would export.
/// unsafe extern "C" fn double(frame: *mut Frame) -> *mut XLA_FFI_Error {
///     // SAFETY: a host gives whole frames, here always of one argument and one result.
///     let (args, rets) = unsafe { ((*frame).args.args, (*frame).rets.rets) };
///     // SAFETY: as above.
///     let (x, y) = unsafe { ((*args).cast::<XLA_FFI_Buffer>(), (*rets).cast::<XLA_FFI_Buffer>()) };
///     // SAFETY: an f32 each, as the call below has it.
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
/// // Prepared once, run often: what is measured by `xla-ffi bench`.
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
    // Dropped before the executable, because the executable's library destroys its state.
    pub(crate) request: Box<Request>,
    pub(crate) executable: Executable,
}

/// The outcome of a call.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The results, in order.
    pub rets: Vec<Tensor>,
}

impl Executable {
    /// Returns true if a call runs any stage before execute.
    fn runs_more(&self, stages: Stages) -> bool {
        self.runs(Stage::Prepare, stages) || self.runs(Stage::Initialize, stages)
    }

    /// Returns true if a call runs this stage before execute.
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

    /// Adds an argument.
    #[inline]
    #[must_use]
    pub fn arg(mut self, tensor: Tensor) -> Self {
        self.request.args.push(tensor);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, tensors: impl IntoIterator<Item = Tensor>) -> Self {
        self.request.args.extend(tensors);
        self
    }

    /// Adds a result. A shape is a result in new memory that is initialised with zeros; for other memory, see [`Ret`].
    #[inline]
    #[must_use]
    pub fn ret(mut self, ret: impl Into<Ret>) -> Self {
        self.request.rets.push(ret.into());
        self
    }

    /// Adds a result in the memory of a tensor, whose elements do not change until the handler writes them. The tensor
    /// must not be shared. If its elements share bytes, the call is `UNIMPLEMENTED` before r5, because those hosts
    /// order the elements differently.
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

    /// Sets the number of the execution. The default is 0.
    #[must_use]
    pub fn run_id(mut self, run_id: i64) -> Self {
        self.request.parts.run_id = run_id;
        self
    }

    /// Sets the device's global number. The default is 0.
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

    /// Runs the handler's tasks on the program's own threads: the tasks of the thread pool and, from r9 on, the bodies
    /// of `async fn` handlers. By default, such bodies run on threads of their library. A body that blocks occupies one
    /// of the threads.
    #[must_use]
    pub fn executor(mut self, executor: impl Into<Option<Arc<dyn Executor>>>) -> Self {
        self.request.parts.executor = executor.into();
        self
    }

    /// Sets the platform's stream. By default there is none.
    #[must_use]
    pub fn stream(mut self, stream: Stream) -> Self {
        self.request.parts.stream = Some(stream);
        self
    }

    /// Sets the stream and the allocator to those of a device that is a thread, and removes the thread pool.
    #[must_use]
    pub fn on_device(self, device: &crate::device::CpuDevice) -> Self {
        self.stream(device.stream.stream())
            .allocator(device.allocator.clone())
            .without_thread_pool()
    }

    /// Sets the source of scratch memory. By default there is none.
    #[must_use]
    pub fn allocator(mut self, allocator: Arc<dyn DeviceAllocator>) -> Self {
        self.request.parts.allocator = Some(allocator);
        self
    }

    /// Sets the user data, which has to belong to the handler's runtime. Otherwise, preparing or running the call
    /// fails.
    #[must_use]
    pub fn user_data(mut self, user_data: impl Into<Arc<UserData>>) -> Self {
        self.request.parts.user_data = Some(user_data.into());
        self
    }

    /// Sets the custom options of this execution; handlers see them from r10.
    #[must_use]
    pub fn custom_options(mut self, options: &Attributes) -> Self {
        self.request.parts.custom_options = Some(Encoded::new(
            options,
            self.executable.handler().shared.revision,
        ));
        self
    }

    /// Adds an extension of the context; handlers find it from r9.
    ///
    /// # Safety
    /// The extension must not change while the call, a prepared call made from it, or a clone of one exists.
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

    /// Gives the call collectives; handlers find them from r9.
    #[must_use]
    pub fn collectives(mut self, collectives: Arc<crate::api::Collectives>) -> Self {
        self.request
            .parts
            .extensions
            .push_owned(collectives.extension(), collectives.clone());
        self
    }

    /// Sets which stages run.
    #[must_use]
    pub fn stages(mut self, stages: Stages) -> Self {
        self.request.rules.stages = stages;
        self
    }

    /// Sets the time limit of each execution, from its start.
    ///
    /// **A synchronous handler blocks its caller beyond the limit**, until it returns: nothing can interrupt a
    /// function. Handlers that run for a long time have to poll
    /// ([`Invocation::cancelled`](crate::internal::Invocation::cancelled), or `xla_ffi::Cancellation` from r9 on) or be
    /// asynchronous.
    ///
    /// After the limit, [`PreparedCall::wait`] returns `DEADLINE_EXCEEDED` while an asynchronous handler continues.
    /// Handlers that poll see the call cancelled, and a stage that has not started is refused. A result that is
    /// completed later is still accepted. `None` waits forever. By default, the runtime waits 60 s for asynchronous
    /// handlers and cancels none.
    #[must_use]
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.request.rules.time_limit = Some(limit);
        self
    }

    /// Makes the call cancellable: handlers that poll see the cancellation (from r9; those of the internal API on every
    /// revision). A stage that has not started is refused as `CANCELLED`. Cancelling neither stops a handler nor ends a
    /// wait for it.
    #[must_use]
    pub fn canceller<'c>(mut self, canceller: impl Into<Option<&'c Canceller>>) -> Self {
        self.request.parts.canceller = canceller.into().cloned();
        self
    }

    /// Sets what happens to results that the handler leaves unwritten. By default, they are accepted. To detect them,
    /// the results are filled with random bytes before each execution. If eight or more consecutive bytes are unchanged
    /// after a success, the call fails with [`Hazard::UnwrittenResult`](crate::Hazard::UnwrittenResult), which names
    /// the result and the element.
    ///
    /// Shorter gaps are not detected. Results of less than eight bytes are only detected if they have four bytes or
    /// more and none was written. Results in the memory of an argument or of another result, scratch memory, and the
    /// results of failed executions are not checked.
    #[must_use]
    pub fn unwritten(mut self, unwritten: Unwritten) -> Self {
        self.request.rules.unwritten = unwritten;
        self
    }

    /// Lays the call out and runs the stages before execute. The returned call can be run many times.
    ///
    /// # Errors
    /// Element types that the revision lacks, memory that cannot be allocated, and errors of the stages.
    #[inline]
    pub fn prepare(self) -> Result<PreparedCall> {
        PreparedCall::new(self, None)
    }

    /// Prepares the call like [`Call::prepare`], on a frame whose memory the caller owns. Arguments and results that
    /// were added to the call itself are ignored, and handlers see the executable's attributes.
    ///
    /// # Errors
    /// A frame of a different revision, and errors of the stages.
    ///
    /// # Safety
    /// The frame's data pointers refer to memory of the shapes' sizes while executions run, readable for arguments and
    /// writable for results. An open execution ([`PreparedCall::is_open`]) runs until [`PreparedCall::wait`] or
    /// [`PreparedCall::on_end`] reports its end; dropping the call does not end it. Work that handlers put on the
    /// call's stream uses the memory until the stream has run it. Elements that share bytes are packed like those of
    /// the revision's hosts: before r5 with the first in the high bits. If unwritten results are refused
    /// ([`Call::unwritten`]), the results are in host memory.
    pub unsafe fn prepare_on(mut self, frame: CallFrame) -> Result<PreparedCall> {
        frame.check_revision(self.executable.handler().shared.revision)?;
        self.request.args.clear();
        self.request.rets.clear();
        PreparedCall::new(self, Some(frame))
    }

    /// Runs the call and waits until it is complete.
    ///
    /// # Errors
    /// The handler's error, refusals by the host, hazards, and a future that is not completed in time. In that case the
    /// library keeps the operands until the future is completed, because the handler may still write them.
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
