//! What a running call is made of.

use super::request::{Rules, Stages};
use super::ret::Ret;
use crate::context::{Context, Parts};
use crate::frame::call_frame::RawFrame;
use crate::{CallFrame, Error, Result, Stage, Stream, Tensor};
use xla_ffi_sys::Revision;

/// What is asked of a call.
#[derive(Clone)]
pub(crate) struct Request {
    pub(super) parts: Parts,
    pub(super) args: Vec<Tensor>,
    pub(super) rets: Vec<Ret>,
    pub(super) rules: Rules,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            parts: Parts::new(),
            args: vec![],
            rets: vec![],
            rules: Rules::default(),
        }
    }
}

/// What a running handler may touch. While a future is open it is neither read nor freed.
pub(crate) struct Body {
    pub(super) context: Box<Context>,
    pub(super) raw: RawFrame,
    pub(super) frame: CallFrame,
    /// The arguments and the rules of the call under way; its parts are the context's.
    pub(super) request: Request,
    pub(super) rets: Vec<Tensor>,
}

impl Body {
    pub(super) fn revision(&self) -> Revision {
        self.context.shared().revision
    }

    /// Swaps the context's parts for others, and gives the handler a frame that leads to what there is now.
    pub(super) fn lay_anew(&mut self, parts: &mut Parts) {
        let both = self.request.rules.stages == Stages::All;
        self.context.renew(parts, both);
        let api = self.context.shared().api();
        self.raw = self.frame.raw(api, self.context.raw(), Stage::Execute);
    }

    /// What asks for a call like this one, with other arguments.
    pub(super) fn request_of_another(&self, args: Vec<Tensor>) -> Request {
        Request {
            parts: self.context.parts().clone(),
            args,
            rets: vec![],
            rules: self.request.rules,
        }
    }

    /// Whether the operands are no arrays of the call's own.
    pub(super) fn is_on_memory_of_callers(&self) -> bool {
        self.request.args.is_empty() && self.rets.is_empty()
    }

    /// The future's number dies: a second completion is told from then on.
    pub(super) fn forget_future(&mut self) {
        let future = self.raw.future(self.revision());
        crate::host::futures::forget(future as usize);
        self.context.forget_futures();
    }

    /// Says where bytes behind an array of the call's own were written.
    pub(super) fn check_guards(&self) -> Result<()> {
        for (what, tensors) in [("argument", &self.request.args), ("result", &self.rets)] {
            for (index, tensor) in tensors.iter().enumerate() {
                if let Some(finding) = tensor.check_guard(format_args!("{what} {index}")) {
                    return Err(Error::hazard(finding.hazard, finding.message));
                }
            }
        }
        Ok(())
    }

    /// Waits for the device's stream, if the call has one.
    pub(super) fn synchronize(&self) -> Result<()> {
        let stream = self.context.parts().stream.as_ref();
        stream.map_or(Ok(()), Stream::synchronize)
    }
}
