//! What a running call is made of, and what it leaves for the next.

use super::ret::Ret;
use crate::context::{Context, Parts};
use crate::frame::call_frame::RawFrame;
use crate::{CallFrame, Error, Result, Stage, Tensor};
use xla_ffi_sys::Revision;

/// What a running handler may touch. While a future is open it is neither read nor freed.
///
/// It is what a call leaves for the next one of its executable, emptied of what ties it to the one: its
/// context and its frame are laid out already where the shapes repeat.
pub(crate) struct Body {
    pub(super) context: Box<Context>,
    pub(super) raw: RawFrame,
    pub(super) frame: CallFrame,
    pub(super) args: Vec<Tensor>,
    pub(super) rets: Vec<Tensor>,
    /// Empty; for the next call.
    asked: Vec<Ret>,
    parts: Option<Box<Parts>>,
}

/// What a call is put together in, empty.
pub(super) struct Room {
    pub(super) parts: Box<Parts>,
    pub(super) args: Vec<Tensor>,
    pub(super) rets: Vec<Ret>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            parts: Box::new(Parts::new()),
            args: vec![],
            rets: vec![],
        }
    }
}

impl Body {
    /// What a call is laid out in.
    pub(super) fn new(
        context: Box<Context>,
        raw: RawFrame,
        frame: CallFrame,
        args: Vec<Tensor>,
        rets: Vec<Tensor>,
    ) -> Box<Self> {
        Box::new(Self {
            context,
            raw,
            frame,
            args,
            rets,
            asked: vec![],
            parts: None,
        })
    }

    pub(super) fn revision(&self) -> Revision {
        self.context.shared().revision
    }

    /// Empties it of what ties it to one call; false where something cannot be taken off it.
    pub(super) fn clear(&mut self) -> bool {
        if !self.context.is_clean() {
            return false;
        }
        self.context.clear();
        self.args.clear();
        self.rets.clear();
        true
    }

    /// Room for the call that this was left for.
    pub(super) fn room(&mut self) -> Room {
        Room {
            parts: self.parts.take().unwrap_or_else(|| Box::new(Parts::new())),
            args: std::mem::take(&mut self.args),
            rets: std::mem::take(&mut self.asked),
        }
    }

    /// Takes over operands that fit, and the rest of a call's context.
    pub(super) fn renew(&mut self, room: Room, rets: Vec<Tensor>, both: bool) {
        self.frame.point_at(&room.args, &rets);
        (self.args, self.rets, self.asked) = (room.args, rets, room.rets);
        // Those before are empty: this was left for the next.
        self.parts = Some(self.context.renew(room.parts, both));
    }

    /// Gives the context other parts, and the handler a frame that leads to what there is now.
    pub(super) fn lay_anew(&mut self, parts: Box<Parts>, both: bool) {
        self.context.renew(parts, both);
        let api = self.context.shared().api();
        self.raw = self.frame.raw(api, self.context.raw(), Stage::Execute);
    }

    /// Whether the operands are no arrays of the call's own.
    pub(super) fn is_on_memory_of_callers(&self) -> bool {
        self.args.is_empty() && self.rets.is_empty()
    }

    /// The future's number dies: a second completion is told from then on.
    pub(super) fn forget_future(&mut self) {
        let future = self.raw.future(self.revision());
        crate::host::futures::forget(future as usize);
        self.context.forget_futures();
    }

    /// Says where bytes behind an array of the call's own were written.
    pub(super) fn check_guards(&self) -> Result<()> {
        for (what, tensors) in [("argument", &self.args), ("result", &self.rets)] {
            for (index, tensor) in tensors.iter().enumerate() {
                if let Some(finding) = tensor.check_guard(format_args!("{what} {index}")) {
                    return Err(Error::hazard(finding.hazard, finding.message));
                }
            }
        }
        Ok(())
    }

    /// Waits for the device's stream, if the call has one.
    pub(super) fn synchronize(&self) {
        if let Some(stream) = &self.context.parts().stream {
            stream.synchronize();
        }
    }
}
