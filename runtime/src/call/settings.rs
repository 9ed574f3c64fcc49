//! Settings of a prepared call that can change between executions.

use super::prepared::PreparedCall;
use super::request::{Ret, Rules, flips, operands};
use super::{Call, Unwritten};
use crate::context::{Canceller, Parts, UserData};
use crate::device::{DeviceAllocator, Stream};
use crate::frame::CallFrame;
use crate::frame::encoded::Encoded;
use crate::host::{Executor, Shared};
use crate::value::{Attributes, Tensor};
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Settings for the next executions, from [`PreparedCall::settings`]. Other settings keep their values.
///
/// ```
/// # use std::time::Duration;
/// # use xla_ffi_runtime::{Attributes, Bundle, ErrorCode, Revision, Runtime};
/// # unsafe extern "C" fn nothing(_: *mut xla_ffi_sys::XLA_FFI_CallFrame) -> *mut xla_ffi_sys::XLA_FFI_Error {
/// #     std::ptr::null_mut()
/// # }
/// # fn main() -> xla_ffi_runtime::Result<()> {
/// # // SAFETY: the function is a handler.
/// # let bundle = unsafe { Bundle::execute(nothing) };
/// # let handler = Runtime::new(Revision::R0).handler("nothing", bundle)?;
/// let mut call = handler.instantiate(&Attributes::new())?.call().prepare()?;
/// for (request, limit) in [(1, 20), (2, 0)] {
///     let limit = Duration::from_millis(limit);
///     call.settings()?.run_id(request).time_limit(Some(limit));
///     let outcome = call.invoke();
///     assert_eq!(outcome.is_err_and(|error| error.code() == ErrorCode::DeadlineExceeded), request == 2);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Settings<'c> {
    parts: &'c mut Parts,
    rules: &'c mut Rules,
    shared: &'c Arc<Shared>,
}

impl std::fmt::Debug for Settings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

impl Settings<'_> {
    /// Sets the run id, the number of the execution.
    pub fn run_id(&mut self, run_id: i64) -> &mut Self {
        self.parts.run_id = run_id;
        self
    }

    /// Sets the device ordinal, the device's global number.
    pub fn device_ordinal(&mut self, ordinal: i32) -> &mut Self {
        self.parts.device_ordinal = ordinal;
        self
    }

    /// Sets the time limit. The limitations of [`Call::time_limit`] apply.
    pub fn time_limit(&mut self, limit: Option<Duration>) -> &mut Self {
        self.rules.time_limit = Some(limit);
        self.parts.deadline = None;
        self
    }

    /// Sets the canceller, or removes it: see [`Call::canceller`].
    pub fn canceller<'a>(&mut self, canceller: impl Into<Option<&'a Canceller>>) -> &mut Self {
        self.parts.canceller = canceller.into().cloned();
        self
    }

    /// Sets whether calls with unwritten results fail: see [`Call::unwritten`].
    pub fn unwritten(&mut self, unwritten: Unwritten) -> &mut Self {
        self.rules.unwritten = unwritten;
        self
    }

    /// Sets the platform's stream, or removes it.
    pub fn stream(&mut self, stream: impl Into<Option<Stream>>) -> &mut Self {
        self.parts.stream = stream.into();
        self
    }

    /// Sets the allocator for scratch memory, or removes it.
    pub fn allocator(
        &mut self,
        allocator: impl Into<Option<Arc<dyn DeviceAllocator>>>,
    ) -> &mut Self {
        self.parts.allocator = allocator.into();
        self
    }

    /// Sets the executor of the handler's tasks; `None` restores the default: see [`Call::executor`].
    pub fn executor(&mut self, executor: impl Into<Option<Arc<dyn Executor>>>) -> &mut Self {
        self.parts.executor = executor.into();
        self
    }

    /// Sets the custom options of the executions. Handlers can read them from r10.
    pub fn custom_options(&mut self, options: &Attributes) -> &mut Self {
        self.parts.custom_options = Some(Encoded::new(options, self.shared.revision));
        self
    }

    /// Sets the called computation, for handlers of the internal API.
    pub fn called_computation(&mut self, computation: Arc<dyn Any + Send + Sync>) -> &mut Self {
        self.parts.called_computation = Some(computation);
        self
    }

    /// Sets the user data of the next executions.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for user data of a different runtime.
    pub fn user_data(&mut self, data: impl Into<Arc<UserData>>) -> Result<&mut Self> {
        let data = data.into();
        data.check(self.shared)?;
        self.parts.user_data = Some(data);
        Ok(self)
    }
}

impl Call {
    /// Returns settings that change a call before it is prepared, for the C API.
    #[doc(hidden)]
    pub fn settings(&mut self) -> Settings<'_> {
        Settings {
            parts: &mut self.request.parts,
            rules: &mut self.request.rules,
            shared: &self.executable.handler().shared,
        }
    }
}

fn addresses(tensors: &[Tensor]) -> Vec<*mut c_void> {
    tensors.iter().map(Tensor::data).collect()
}

impl PreparedCall {
    /// Returns settings that change the next executions, for example the time limit or the run id. The call costs a
    /// few nanoseconds.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while an execution is open, or on the thread of the call's stream.
    #[inline]
    pub fn settings(&mut self) -> Result<Settings<'_>> {
        self.check_closed()?;
        let body = &mut **self.body;
        // Work on the stream from the last execution may use the replaced values.
        body.synchronize()?;
        Ok(Settings {
            parts: body.context.parts_mut(),
            rules: &mut body.request.rules,
            shared: &self.executable.handler().shared,
        })
    }

    /// Replaces the operands of the next executions. The new operands may have different shapes.
    ///
    /// # Errors
    /// The errors of [`Call::prepare`]. `FAILED_PRECONDITION` while an execution is open, and if a stage before
    /// execute received the operands. `INVALID_ARGUMENT` if the operands are in the caller's memory (use
    /// [`PreparedCall::set_frame`]).
    pub fn set_operands<R: Into<Ret>>(
        &mut self,
        args: impl IntoIterator<Item = Tensor>,
        rets: impl IntoIterator<Item = R>,
    ) -> Result<()> {
        self.may_have_other_operands()?;
        if self.body.is_on_memory_of_callers() && self.body.frame.has_operands() {
            return Err(Error::invalid_argument(
                "the operands are the caller's memory: name other memory (set_frame)",
            ));
        }
        let mut args: Vec<_> = args.into_iter().collect();
        let (mut asked, mut rets) = (rets.into_iter().map(R::into).collect(), vec![]);
        operands(&mut args, &mut asked, self.body.revision(), &mut rets)?;
        let attributes = self.executable.attributes().clone();
        let body = &mut **self.body;
        if body.frame.fits(&args, &rets) {
            body.frame
                .check_overlap_at(&addresses(&args), &addresses(&rets))?;
            body.frame.point_at(&args, &rets);
        } else {
            let frame = CallFrame::of_tensors(body.revision(), &args, &rets, attributes)?;
            frame.check_overlap()?;
            body.frame = frame;
        }
        self.take_over(args, rets);
        Ok(())
    }

    /// Replaces the operands like [`PreparedCall::set_operands`], with operands in the caller's memory.
    ///
    /// # Errors
    /// The errors of [`PreparedCall::set_operands`], and `INVALID_ARGUMENT` for a frame of a different revision.
    ///
    /// # Safety
    /// The requirements of [`Call::prepare_on`] apply.
    pub unsafe fn set_frame(&mut self, frame: CallFrame) -> Result<()> {
        self.may_have_other_operands()?;
        frame.check_revision(self.body.revision())?;
        frame.check_overlap()?;
        self.body.frame = frame.with_attributes(self.executable.attributes().clone());
        self.take_over(vec![], vec![]);
        Ok(())
    }

    /// Replaces the operands of a call whose frame already points to the new operands. The previous operands are
    /// dropped last, because their destructors may panic and the call must stay consistent.
    fn take_over(&mut self, args: Vec<Tensor>, rets: Vec<Tensor>) {
        // The random bytes of a failed execution belong to results that may no longer exist.
        self.poison = None;
        self.unpacked.take();
        let body = &mut **self.body;
        let before = std::mem::replace(&mut body.request.args, args);
        let results = std::mem::replace(&mut body.rets, rets);
        body.lay_out();
        drop((before, results));
    }

    /// Replaces the arguments of the next executions with arguments of the same shapes. This function is cheaper than
    /// [`PreparedCall::set_operands`]. Results keep their memory.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while an execution is open, if a stage before execute received the arguments, or if a
    /// result shares the memory of an argument. `INVALID_ARGUMENT` for different shapes.
    pub fn set_args(&mut self, args: impl IntoIterator<Item = Tensor>) -> Result<()> {
        self.may_have_other_operands()?;
        let body = &mut **self.body;
        let mut args: Vec<_> = args.into_iter().collect();
        if !body.frame.fits(&args, &body.rets) {
            return Err(Error::invalid_argument(
                "the arguments have other shapes than those before: set all operands (set_operands)",
            ));
        }
        let aliases = |arg: &Tensor| body.rets.iter().any(|ret| ret.shares_memory_with(arg));
        if body.request.args.iter().any(aliases) {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                "a result is in an argument's memory: set all operands (set_operands)",
            ));
        }
        if flips(body.revision()) {
            for arg in &mut args {
                *arg = arg.with_flipped_packing()?;
            }
        }
        let (places, rets) = (addresses(&args), addresses(&body.rets));
        body.frame.check_overlap_at(&places, &rets)?;
        body.frame.point_at(&args, &body.rets);
        body.request.args = args;
        Ok(())
    }

    /// Replaces the data pointers of a call whose operands are in the caller's memory.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while an execution is open, and for different pointers if a stage before execute
    /// received the current pointers. `INVALID_ARGUMENT` for a wrong number of pointers.
    ///
    /// # Safety
    /// The requirements of [`Call::prepare_on`] apply.
    pub unsafe fn update(&mut self, args: &[*mut c_void], rets: &[*mut c_void]) -> Result<()> {
        self.check_closed()?;
        if !self.body.is_on_memory_of_callers() {
            return Err(super::prepared::own_arrays());
        }
        if !self.body.frame.leads_to(args, rets) {
            self.has_seen_operands()?;
        }
        self.body.frame.check_overlap_at(args, rets)?;
        self.body.frame.update(args, rets)
    }

    fn has_seen_operands(&self) -> Result<()> {
        if self.executable.runs_more(self.body.request.rules.stages) {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                "the handler has a stage before execute, which has seen the operands: prepare another call",
            ));
        }
        Ok(())
    }

    fn may_have_other_operands(&self) -> Result<()> {
        self.check_closed()?;
        self.has_seen_operands()?;
        // Work on the stream from the last execution uses operands that the caller may free after this function.
        self.body.synchronize()
    }
}
