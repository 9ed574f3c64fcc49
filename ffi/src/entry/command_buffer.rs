//! The promise of handlers that are compatible with command buffers, checked in debug builds.
//!
//! XLA captures such a handler's execute stage once and replays what it launched. A call that waits
//! for the stream breaks the capture; memory that was allocated for the captured call belongs to
//! somebody else when it is replayed. The check knows what goes through this crate; it is compiled
//! into debug builds alone, since it costs every call a word of thread-local memory.

use crate::declare::handler_info::HandlerInfo;
use crate::error::{Error, Result};
use std::cell::Cell;

thread_local! {
    /// The name of the compatible handler whose execute stage runs on this thread.
    static RUNNING: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Marks the execute stage of a compatible handler, until dropped. In release builds it is nothing at
/// all: something to drop, though never there, would cost every call a place on the stack.
#[derive(Debug)]
pub(crate) struct Replayed {
    #[cfg(debug_assertions)]
    before: Option<&'static str>,
}

impl Replayed {
    /// Marks the stage, if the handler has the trait.
    #[cfg(debug_assertions)]
    pub(crate) fn enter(info: &HandlerInfo, stage: u32) -> Option<Self> {
        use xla_ffi_sys::{XLA_FFI_ExecutionStage, XLA_FFI_Handler_TraitsBits};
        let compatible = info.traits & XLA_FFI_Handler_TraitsBits::COMMAND_BUFFER_COMPATIBLE.0 != 0;
        (compatible && stage == XLA_FFI_ExecutionStage::EXECUTE.0).then(|| Self {
            before: RUNNING.replace(Some(info.name)),
        })
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    pub(crate) fn enter(_: &HandlerInfo, _: u32) -> Self {
        Self {}
    }
}

#[cfg(debug_assertions)]
impl Drop for Replayed {
    fn drop(&mut self) {
        RUNNING.set(self.before);
    }
}

/// Refuses `what`, in debug builds, where a compatible handler executes.
///
/// # Errors
/// `FAILED_PRECONDITION` naming the handler and the `remedy`.
#[inline]
pub(crate) fn forbid(what: &str, remedy: &str) -> Result<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    match RUNNING.get() {
        None => Ok(()),
        Some(name) => Err(Error::failed_precondition(format!(
            "{name} is declared `command_buffer_compatible`, but its execute stage {what}: XLA \
             captures the stage once and replays it without calling the handler again; {remedy}, or \
             drop the trait"
        ))),
    }
}
