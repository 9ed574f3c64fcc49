//! A call while it runs. What runs code of the program's (stages, deleters, allocators) is behind the mark, and of
//! the call no more is borrowed than what that code cannot reach.

use super::phase::{begin, end};
use super::{Side, xffi_rt_call};
use host::{Call, CallFrame, Code, Error, PreparedCall, Result, Runtime};

/// A call that is marked as running, until this goes.
pub(super) struct Running(*mut xffi_rt_call);

/// The call's fields, each borrowed alone: its mark is read meanwhile, and `xffi_rt_call_clone` reads those that are
/// not written here.
struct Fields<'r> {
    runtime: &'r Runtime,
    call: &'r Call,
    args: &'r Side,
    rets: &'r Side,
    prepared: &'r mut Option<PreparedCall>,
    stale: &'r mut bool,
    changed: &'r mut bool,
    reshaped: &'r mut bool,
}

impl Fields<'_> {
    fn frame(&self) -> Result<CallFrame> {
        let (args, rets) = (self.args.operands(), self.rets.operands());
        CallFrame::new(self.runtime.revision(), &args, &rets)
    }

    /// Nothing was said since the call was prepared.
    fn is_as_told(&mut self) {
        (*self.stale, *self.changed, *self.reshaped) = (false, false, false);
    }
}

impl Running {
    /// # Safety
    /// The call is null or the caller's.
    pub(super) unsafe fn new(call: *mut xffi_rt_call) -> Result<Self> {
        // SAFETY: as promised by the caller.
        unsafe { begin(call) }?;
        Ok(Self(call))
    }

    fn fields(&mut self) -> Fields<'_> {
        // SAFETY: the call is there as long as it is marked, and nothing of it is borrowed when this begins.
        let whole = unsafe { &mut *self.0 };
        // Taken apart at once: its mark is in no borrow, and the program's code is refused what would change the rest.
        let xffi_rt_call {
            runtime,
            call,
            prepared,
            args,
            rets,
            stale,
            changed,
            reshaped,
            phase: _,
        } = whole;
        Fields {
            runtime,
            call,
            args,
            rets,
            prepared,
            stale,
            changed,
            reshaped,
        }
    }

    /// What was prepared for the last run.
    pub(super) fn prepared(&mut self) -> Option<&mut PreparedCall> {
        self.fields().prepared.as_mut()
    }

    /// Prepares the call as it was last told: that runs stages, and deleters of what it was told before.
    ///
    /// # Safety
    /// The operands' data is as `runtime.h` says.
    pub(super) unsafe fn ready(&mut self) -> Result<&mut PreparedCall> {
        let mut own = self.fields();
        if own.prepared.is_none() {
            let frame = own.frame()?;
            // SAFETY: the caller keeps the operands' data until the execution is over.
            *own.prepared = Some(unsafe { own.call.clone().prepare_on(frame) }?);
            own.is_as_told();
        }
        if *own.reshaped {
            let frame = own.frame()?;
            if let Some(prepared) = own.prepared {
                // SAFETY: as above.
                unsafe { prepared.renew_on(own.call.clone(), frame) }?;
            }
            own.is_as_told();
        }
        let Some(prepared) = own.prepared else {
            return Err(Error::new(Code::Internal, "the call is not prepared"));
        };
        if *own.changed {
            prepared.renew(own.call.clone())?;
            *own.changed = false;
        }
        if *own.stale {
            // SAFETY: as above; an execution that is open is refused.
            unsafe { prepared.update(&own.args.data, &own.rets.data) }?;
            *own.stale = false;
        }
        Ok(prepared)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: marked by `new`, once; nothing that was borrowed from this is left.
        unsafe { end(self.0) };
    }
}
