//! The instantiate stage: an executable is made of a handler and attributes.

use super::body::{Body, Request};
use super::invoke::run_stage;
use super::prepared::leave_open;
use crate::context::{Context, Parts};
use crate::frame::attribute_parser;
use crate::frame::encoded::Encoded;
use crate::handler::{Executable, Handler};
use crate::{Attributes, CallFrame, Result, Stage};
use std::sync::Arc;
use xla_ffi_sys::Revision;

impl Handler {
    /// Makes an executable with these attributes: runs the instantiate stage where the handler has
    /// one (r0 has no stage but execute). Its state lives as long as the executable.
    ///
    /// # Errors
    /// What the handler answers; `INVALID_ARGUMENT` where the attribute parser of the revision's hosts does not take
    /// one: dictionaries before r2, `dense<…>` and unsigned arrays before r3, and on every revision numbers that XLA
    /// passes to no handler: floats that are not `f32` or `f64`, integers of less than 8 bits, complex numbers, and
    /// arrays of these and of booleans.
    pub fn instantiate(&self, attributes: &Attributes) -> Result<Executable> {
        attribute_parser::accept(attributes, self.shared.revision)?;
        self.instantiate_any(attributes)
    }

    /// As [`Handler::instantiate`], with any attributes that the ABI has a place for: of a host that is not JAX, whose
    /// frames are built by hand, or that was recorded. A handler that such attributes are given here is given none of
    /// them in JAX.
    ///
    /// # Errors
    /// What the handler answers, and `FAILED_PRECONDITION` after a shutdown.
    pub fn instantiate_any(&self, attributes: &Attributes) -> Result<Executable> {
        self.shared.calls.check()?;
        let encoded = Encoded::new(attributes, self.shared.revision);
        let executable = Executable::new(self.clone(), encoded);
        if self.bundle.get(Stage::Instantiate).is_some() && self.shared.revision != Revision::R0 {
            instantiate(&executable)?;
        }
        Ok(executable)
    }
}

/// Runs the instantiate stage: all attributes, no operands.
fn instantiate(executable: &Executable) -> Result<()> {
    let shared = &executable.handler().shared;
    let handler = executable.function(Stage::Instantiate)?;
    let attributes: Arc<Encoded> = executable.attributes().clone();
    let mut frame = CallFrame::of_tensors(shared.revision, &[], &[], attributes)?;
    let parts = Parts {
        thread_pool: false,
        device_ordinal: -1,
        ..Parts::new()
    };
    let tally = &executable.handler().tally;
    let state = executable.state().clone();
    let context = Box::new(Context::new(shared.clone(), tally, parts, state, false));
    let mut raw = frame.raw(shared.api(), context.raw(), Stage::Instantiate);
    let outcome = run_stage(executable, &context, handler, Stage::Instantiate, &mut raw);
    if let Some(open) = context.progress().open() {
        let body = Body {
            context,
            raw,
            frame,
            request: Request::default(),
            rets: vec![],
        };
        leave_open(open, Box::new(body), executable.clone());
    }
    outcome
}
