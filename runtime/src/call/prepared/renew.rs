//! A call becomes another of the same executable, or two.

use super::{PreparedCall, own_arrays};
use crate::call::Call;
use crate::call::request::{flips, operands};
use crate::frame::CallFrame;
use crate::value::Tensor;
use std::ffi::c_void;
use xla_ffi_sys::{Error, ErrorCode, Result};

fn addresses(tensors: &[Tensor]) -> Vec<*mut c_void> {
    tensors.iter().map(Tensor::data).collect()
}

impl PreparedCall {
    /// Takes over what `call` was given for the executions to come: user data, options, stream, allocator, executor and
    /// extensions replace those of this call, and so do operands, which may have other shapes. What `call` was not given
    /// stays. Run id, device ordinal, canceller and time limit are always those of `call`.
    ///
    /// ```
    /// # use std::ffi::c_void;
    /// # use xla_ffi_runtime::{Attributes, Bundle, DType, Revision, Runtime, Shape, Tensor};
    /// # use xla_ffi_sys::{XLA_FFI_Buffer, XLA_FFI_CallFrame, XLA_FFI_Error};
    /// # /// y = 2 x, in place of what a library would export.
    /// # unsafe extern "C" fn double(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    /// #     // SAFETY: a host gives whole frames, here always of one argument and one result.
    /// #     let (args, rets) = unsafe { ((*frame).args.args, (*frame).rets.rets) };
    /// #     // SAFETY: as above.
    /// #     let (x, y) = unsafe { ((*args).cast::<XLA_FFI_Buffer>(), (*rets).cast::<XLA_FFI_Buffer>()) };
    /// #     // SAFETY: an f32 each, as the calls below have it.
    /// #     unsafe { *(*y).data.cast::<f32>() = 2.0 * *(*x).data.cast::<f32>() };
    /// #     std::ptr::null_mut()
    /// # }
    /// # fn main() -> xla_ffi_runtime::Result<()> {
    /// # // SAFETY: the function is a handler.
    /// # let bundle = unsafe { Bundle::execute(double) };
    /// # let handler = Runtime::new(Revision::R0).handler("double", bundle)?;
    /// let executable = handler.instantiate(&Attributes::new())?;
    /// let x = |x: f32| Tensor::from_slice([], &[x]);
    /// let y = Shape::new(DType::F32, [])?;
    /// let mut call = executable.call().arg(x(1.0)?).ret(y.clone()).prepare()?;
    /// call.invoke()?;
    /// call.renew(executable.call().run_id(2))?; // the same operands
    /// call.invoke()?;
    /// call.renew(executable.call().run_id(3).arg(x(21.0)?).ret(y))?;
    /// call.invoke()?;
    /// assert_eq!(call.ret_bytes(0)?, 42.0_f32.to_ne_bytes());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while an execution is open, and for other operands where a stage before
    /// execute has seen these; `INVALID_ARGUMENT` for a call of another executable, for operands where
    /// these are the caller's memory ([`PreparedCall::renew_on`]), and as [`Call::prepare`].
    pub fn renew(&mut self, mut call: Call) -> Result<()> {
        self.may_become(&call)?;
        let mut displaced = vec![];
        if !call.request.args.is_empty() || !call.request.rets.is_empty() {
            if self.body.is_on_memory_of_callers() && self.body.frame.has_operands() {
                return Err(Error::invalid_argument(
                    "the operands are the caller's memory: name other memory (renew_on)",
                ));
            }
            self.may_have_other_operands()?;
            let revision = self.body.revision();
            let asked = &mut *call.request;
            let mut rets = vec![];
            operands(&mut asked.args, &mut asked.rets, revision, &mut rets)?;
            let body = &mut **self.body;
            if body.frame.fits(&asked.args, &rets) {
                body.frame
                    .check_overlap_at(&addresses(&asked.args), &addresses(&rets))?;
                body.frame.point_at(&asked.args, &rets);
            } else {
                let attributes = self.executable.attributes().clone();
                let frame = CallFrame::of_tensors(revision, &asked.args, &rets, attributes)?;
                frame.check_overlap()?;
                body.frame = frame;
            }
            // Not a destructor of the program's runs before all is laid out: it may panic.
            std::mem::swap(&mut body.request.args, &mut asked.args);
            displaced = std::mem::replace(&mut body.rets, rets);
        }
        self.become_one_of(call, displaced);
        Ok(())
    }

    /// Other arguments of the same shapes for the executions to come: cheap. Results stay where they are.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while an execution is open, where a stage before execute has seen the arguments, or where
    /// a result lies in the memory of one; `INVALID_ARGUMENT` for other shapes.
    pub fn set_args(&mut self, args: impl IntoIterator<Item = Tensor>) -> Result<()> {
        self.check_closed()?;
        self.may_have_other_operands()?;
        let body = &mut **self.body;
        let mut args: Vec<_> = args.into_iter().collect();
        if !body.frame.fits(&args, &body.rets) {
            return Err(Error::invalid_argument(
                "the arguments have other shapes than those before: renew the call",
            ));
        }
        let aliases = |arg: &Tensor| body.rets.iter().any(|ret| ret.shares_memory_with(arg));
        if body.request.args.iter().any(aliases) {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                "a result is in an argument's memory: renew the call",
            ));
        }
        if flips(body.revision()) {
            for arg in &mut args {
                *arg = arg.with_flipped_packing()?;
            }
        }
        let (places, rets) = (addresses(&args), addresses(&body.rets));
        body.frame.check_overlap_at(&places, &rets)?;
        body.synchronize()?;
        body.frame.point_at(&args, &body.rets);
        body.request.args = args;
        Ok(())
    }

    /// As [`PreparedCall::renew`], with operands in the caller's memory.
    ///
    /// # Errors
    /// As there, and a frame of another revision.
    ///
    /// # Safety
    /// As [`Call::prepare_on`].
    pub unsafe fn renew_on(&mut self, call: Call, frame: CallFrame) -> Result<()> {
        self.may_become(&call)?;
        self.may_have_other_operands()?;
        frame.check_revision(self.body.revision())?;
        frame.check_overlap()?;
        let body = &mut **self.body;
        body.frame = frame.with_attributes(self.executable.attributes().clone());
        let mut displaced = std::mem::take(&mut body.rets);
        displaced.append(&mut body.request.args);
        self.become_one_of(call, displaced);
        Ok(())
    }

    fn may_become(&self, call: &Call) -> Result<()> {
        self.check_closed()?;
        if !call.executable.is_same(&self.executable) {
            return Err(Error::invalid_argument(format!(
                "the call is one of another executable, this is one of '{}'",
                self.executable.handler().name()
            )));
        }
        if let Some(data) = &call.request.parts.user_data {
            data.check(self.body.context.shared())?;
        }
        // What the last execution left on its stream belongs to operands that may go now.
        self.body.synchronize()?;
        Ok(())
    }

    fn may_have_other_operands(&self) -> Result<()> {
        if self.executable.runs_more(self.body.request.rules.stages) {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                "the handler has a stage before execute, which has seen the operands: prepare another call",
            ));
        }
        Ok(())
    }

    /// Takes over the rest of what the call says; the frame is laid out already. What goes with that (`displaced`, and
    /// all that this call was given) goes last: destructors of the program's may panic, and this call stays whole.
    fn become_one_of(&mut self, mut call: Call, displaced: Vec<Tensor>) {
        // An execution that failed has not looked for it, and the results that it lay in may be gone.
        self.poison = None;
        self.unpacked.take();
        let asked = &mut *call.request;
        let rules = &mut self.body.request.rules;
        rules.time_limit = asked.rules.time_limit;
        rules.unwritten = asked.rules.unwritten;
        asked.parts.complete_from(self.body.context.parts());
        self.body.replace_parts(&mut asked.parts);
        drop(displaced);
    }

    /// The same call once more, for another thread: arguments are shared with this one, results are its
    /// own and zero, and so are arguments whose memory results have. The stages before execute run
    /// again; the state of the instantiate stage and the user data are the same objects.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while an execution is open, when the operands are memory of the caller's
    /// ([`PreparedCall::try_clone_on`]), or on the stream's own thread where a result has an argument's memory; and as
    /// [`Call::prepare`].
    pub fn try_clone(&self) -> Result<Self> {
        self.check_closed()?;
        let body = &**self.body;
        if body.is_on_memory_of_callers() && body.frame.has_operands() {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                "the operands are the caller's memory, which two calls cannot have at once: name other \
                 memory (try_clone_on)",
            ));
        }
        let mut args = body.request.args.clone();
        let mut rets = Vec::with_capacity(body.rets.len());
        for ret in &body.rets {
            let shared_with = args.iter_mut().find(|arg| arg.shares_memory_with(ret));
            rets.push(match shared_with {
                Some(arg) => {
                    // The last execution's work may be about to write there.
                    body.synchronize()?;
                    *arg = Tensor::from_bytes(ret.shape().clone(), ret.bytes())?;
                    arg.clone()
                }
                None => Tensor::zeros(ret.shape().clone())?,
            });
        }
        let executable = self.executable.clone();
        let attributes = executable.attributes().clone();
        let frame = CallFrame::of_tensors(body.revision(), &args, &rets, attributes)?;
        Self::assemble(executable, frame, body.request_of_another(args), rets)
    }

    /// As [`PreparedCall::try_clone`], for a call on memory of the caller's: on other memory.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a wrong number of pointers or a call that has its own operands.
    ///
    /// # Safety
    /// As [`Call::prepare_on`].
    pub unsafe fn try_clone_on(&self, args: &[*mut c_void], rets: &[*mut c_void]) -> Result<Self> {
        let body = &**self.body;
        if !body.is_on_memory_of_callers() {
            return Err(own_arrays());
        }
        let frame = body.frame.copy_with(args, rets)?;
        let executable = self.executable.clone();
        Self::assemble(executable, frame, body.request_of_another(vec![]), vec![])
    }

    /// Replaces the data pointers of a call that was prepared on a frame of the caller's.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while an execution is open, and for other pointers where a stage before execute has seen
    /// these; `INVALID_ARGUMENT` for a wrong number of pointers.
    ///
    /// # Safety
    /// As [`Call::prepare_on`].
    pub unsafe fn update(&mut self, args: &[*mut c_void], rets: &[*mut c_void]) -> Result<()> {
        self.check_closed()?;
        if !self.body.is_on_memory_of_callers() {
            return Err(own_arrays());
        }
        if !self.body.frame.leads_to(args, rets) {
            self.may_have_other_operands()?;
        }
        self.body.frame.check_overlap_at(args, rets)?;
        self.body.frame.update(args, rets)
    }
}
