//! Checks that the versions of a handler in several languages decode the same values, and reject the same frames with
//! the same error codes.

use anyhow::{Result, bail, ensure};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error_Code};

use crate::cases::{self, Case, Kind};
use crate::frame::Host;
use crate::host::{self, Call, Sink};

/// The checks that a handler makes before it decodes values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checks {
    /// The handler makes all checks.
    All,
    /// All checks except the check for undeclared aliases: a result may have the address of an argument with the same
    /// type and shape.
    ButCoincidence,
    /// The handler makes only the checks that its author wrote.
    Some,
}

/// The version of a handler in one language.
pub(crate) struct Handler<'a> {
    pub(crate) name: &'a str,
    pub(crate) call: Call,
    pub(crate) sink: Sink,
    pub(crate) checks: Checks,
}

/// The outcome of a call: an error, or whether the call's future was completed; `None` if the call created no future.
type Outcome = std::result::Result<Option<bool>, (XLA_FFI_Error_Code, String)>;

fn call(handler: Call, frame: *mut XLA_FFI_CallFrame) -> Outcome {
    // SAFETY: the frame's host still exists, and handlers detect the malformed frames of this benchmark.
    let error = unsafe { handler(frame) };
    // SAFETY: the call that used the frame has returned.
    let future = unsafe { host::take_future(frame) };
    if error.is_null() {
        return Ok(future);
    }
    // SAFETY: the benchmark's host created the error.
    let told = unsafe { host::told(error) };
    // SAFETY: the benchmark's host created the error, and no code uses the error again.
    unsafe { host::destroy(error) };
    Err(told)
}

/// Compares the versions of a handler on a case and on all malformed variants of the case's frame. Returns the number
/// of rejected frames.
pub(crate) fn judge(case: &Case, handlers: &[Handler<'_>], host: &Host) -> Result<usize> {
    let frame = (case.frame)(host);
    let mut sinks = Vec::new();
    for handler in handlers {
        let outcome = call(handler.call, frame.raw);
        match (case.kind, &outcome) {
            (Kind::Success | Kind::Device, Ok(future)) => {
                // A handler that completes before it returns need not create a future.
                let is_async = case.symbol == "async_inline";
                ensure!(
                    future.is_none() || (is_async && *future == Some(true)),
                    "{}: {}: future {future:?}",
                    case.name,
                    handler.name
                );
                // SAFETY: the function has no preconditions, because it only reads a number.
                sinks.push(unsafe { (handler.sink)() });
            }
            (Kind::Error, Err(_)) => {}
            _ => bail!("{}: {}: {outcome:?}", case.name, handler.name),
        }
    }
    ensure!(
        sinks.windows(2).all(|pair| pair[0] == pair[1]),
        "{}: the libraries decode different values: {sinks:?}",
        case.name
    );
    if case.kind != Kind::Success {
        return Ok(0);
    }
    let checked = || handlers.iter().filter(|it| it.checks != Checks::Some);
    let mut wrong = Vec::new();
    let malformed = cases::malformed(case, host);
    for (what, frame) in &malformed {
        let mut first = None;
        for handler in checked() {
            let name = handler.name;
            match call(handler.call, frame.raw) {
                Ok(_) => wrong.push(format!("{name} accepts a wrong {what}")),
                Err((code, text)) => {
                    let (other, wanted) = *first.get_or_insert((name, code));
                    if code != wanted {
                        wrong.push(format!(
                            "a wrong {what} is {wanted:?} in {other}, {code:?} in {name}: {text}"
                        ));
                    }
                }
            }
        }
    }
    for (what, frame) in cases::coincident(case, host) {
        for handler in checked() {
            let outcome = call(handler.call, frame.raw);
            if outcome.is_ok() != (handler.checks == Checks::ButCoincidence) {
                wrong.push(format!("{what}: {}: {outcome:?}", handler.name));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}:\n{}", case.name, wrong.join("\n"));
    Ok(malformed.len())
}
