//! Detects results that a successful handler did not write.
//!
//! Debug builds have this module; release builds do not.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::declare::handler_info::HandlerInfo;
use crate::frame::Frame;
use crate::frame::pending::Flow;
use crate::frame::raw_buffer::RawBuffer;
use crate::frame::result_ledger::{Entry, HERE, Ledger, Results};
use crate::param::{Kind, Param, Presence};
use xla_ffi_sys::XLA_FFI_ExecutionStage;

/// Returns the outcome of a completed call, or an error if the call left results unwritten.
pub(crate) fn check_results(flow: Flow) -> Flow {
    match flow {
        Flow::Done => match Results::of_this_call().check() {
            Ok(()) => Flow::Done,
            Err(error) => Flow::Failed(error),
        },
        other => other,
    }
}

/// Collects the results of a call that the handler must write.
fn open(frame: &Frame<'_>, info: &'static HandlerInfo, params: &[Param]) -> Ledger {
    let mut entries = Vec::new();
    let mut next = 0;
    for param in params.iter().filter(|param| param.takes_ret()) {
        let first = next;
        let variadic = matches!(param.presence, Presence::Variadic);
        next = if variadic {
            frame.ret_count().max(first)
        } else {
            first + 1
        };
        if matches!(param.kind, Kind::InOut) {
            continue;
        }
        for index in first..next {
            let Some((start, bytes)) = frame.ret(index).and_then(RawBuffer::place) else {
                continue;
            };
            // Skip device results whose memory the caller aliased with an argument, because these
            // results are already written.
            let mut args = (0..frame.arg_count()).filter_map(|arg| frame.arg(arg)?.place());
            if args.any(|(arg, _)| arg == start) {
                continue;
            }
            entries.push(Entry {
                start,
                bytes,
                is_accessed: AtomicBool::new(false),
                name: param.name,
                number: variadic.then_some(index - first),
            });
        }
    }
    Ledger {
        handler: info.name,
        entries,
    }
}

/// Marks the execution of a handler. Scopes nest if handlers call handlers.
pub(crate) struct Scope {
    // Invariant: `HERE` points to this ledger while the scope is the innermost scope of its thread.
    _own: Option<Arc<Ledger>>,
    outer: *const Ledger,
}

impl Scope {
    pub(crate) fn enter(
        frame: &Frame<'_>,
        info: &'static HandlerInfo,
        params: &[Param],
        stage: u32,
    ) -> Self {
        let own =
            (stage == XLA_FFI_ExecutionStage::EXECUTE.0).then(|| open(frame, info, params).watch());
        let here = own.as_ref().map_or(std::ptr::null(), Arc::as_ptr);
        Self {
            _own: own,
            outer: HERE.replace(here),
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        HERE.set(self.outer);
    }
}
