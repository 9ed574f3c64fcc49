//! What is wrong with a call, collected: a line for each problem, and the message that they make.

use std::borrow::Cow;

use crate::error::{Error, ErrorCode};
use xla_ffi_sys::XLA_FFI_ExecutionStage;

/// Collects what is wrong with one call: a line for each problem. [`Bind::explain`] is given it.
///
/// [`Bind::explain`]: crate::Bind::explain
///
/// ```
/// use xla_ffi::{Bind, Revision, prelude::*, bind::{At, Frame, Param, Problems}};
///
/// /// The host speaks 0.5 or newer, and more.
/// struct Newest;
///
/// // SAFETY: it takes no operand.
/// unsafe impl<'f> Bind<'f> for Newest {
///     const PARAM: Param = Param::context("newest", Revision::R0);
///
///     fn bind(frame: &Frame<'f>, _: &At) -> Option<Self> {
///         (frame.host().version() >= (0, 6)).then_some(Self)
///     }
///
///     fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
///         assert!(problems.is_empty());
///         if Self::bind(frame, at).is_none() {
///             // With this code alone the whole call is `UNIMPLEMENTED`.
///             let lack = Error::unimplemented("the host is older than 0.6");
///             problems.context(at.param.name, &lack);
///             problems.push("a problem of another kind");
///             assert_eq!(problems.len(), 2);
///         }
///     }
/// }
///
/// #[xla_ffi::handler]
/// fn needs(_host: Newest) -> Result<()> {
///     Ok(())
/// }
///
/// # use xla_ffi::embed;
/// let error = embed::call::<needs>("{}")?.run().unwrap_err();
/// assert_eq!(
///     error.message(),
///     "needs (execute): 2 problems\n  host: the host is older than 0.6\n  a problem of another kind"
/// );
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Debug)]
pub struct Problems<'a> {
    // Everything is written to one text: a call that is refused should not cost a dozen allocations.
    text: &'a mut String,
    // Where the first problem begins.
    start: usize,
    separator: &'static str,
    count: usize,
    pub(crate) other_than_lacks: bool,
    /// What an attribute is called: within a dictionary, an entry.
    pub(crate) noun: &'static str,
    /// The code that a part of the context asks for, whatever else is wrong.
    code: Option<ErrorCode>,
}

impl<'a> Problems<'a> {
    /// Writes behind what `text` holds, with `separator` between one problem and the next.
    pub(crate) fn new(text: &'a mut String, separator: &'static str) -> Self {
        Self {
            start: text.len(),
            text,
            separator,
            count: 0,
            other_than_lacks: false,
            noun: "attribute",
            code: None,
        }
    }

    /// The text, ready for the next problem.
    pub(crate) fn next(&mut self) -> &mut String {
        if self.count > 0 {
            self.text.push_str(self.separator);
        }
        self.count += 1;
        self.text
    }

    /// Adds what a part of the context answered; `UNIMPLEMENTED` stays that if nothing else is
    /// wrong.
    pub fn context(&mut self, what: &str, error: &Error) {
        if error.code() != ErrorCode::Unimplemented {
            self.other_than_lacks = true;
        }
        let text = self.next();
        put(text, &[what, ": ", error.message()]);
    }

    /// The whole call is refused with this code: it came to the wrong host.
    #[cfg(feature = "internal")]
    pub(crate) fn refuse(&mut self, code: ErrorCode) {
        self.code = Some(code);
    }

    /// The code of the refusal: `UNIMPLEMENTED` where all that is wrong is that the host lacks something.
    fn code(&self) -> ErrorCode {
        let lacks = self.count > 0 && !self.other_than_lacks;
        self.code.unwrap_or(if lacks {
            ErrorCode::Unimplemented
        } else {
            ErrorCode::InvalidArgument
        })
    }

    /// The text, ready for a problem: one line that names the parameter.
    pub(crate) fn line(&mut self) -> &mut String {
        self.other_than_lacks = true;
        self.next()
    }

    /// Adds a problem: one line that names the parameter.
    pub fn push(&mut self, problem: impl AsRef<str>) {
        self.line().push_str(problem.as_ref());
    }

    /// Number of problems so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Writes pieces of text.
#[inline(never)]
pub(crate) fn put(text: &mut String, pieces: &[&str]) {
    pieces.iter().for_each(|piece| text.push_str(piece));
}

/// Writes a number.
pub(crate) fn number(text: &mut String, number: i64) {
    text.push_str(&number.to_string());
}

/// Writes dimensions: `[2, 3]`.
pub(crate) fn dims(text: &mut String, dims: &[i64]) {
    let mut before = "[";
    for dim in dims {
        text.push_str(before);
        number(text, *dim);
        before = ", ";
    }
    text.push_str(if dims.is_empty() { "[]" } else { "]" });
}

/// The name of a stage.
pub(crate) fn stage_name(stage: u32) -> Cow<'static, str> {
    match XLA_FFI_ExecutionStage(stage).lower_name() {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("number {stage}")),
    }
}

/// An error that a handler returned, with the handler's name and the stage before its text, unless the name is there.
pub(crate) fn named(error: Error, handler: &str, stage: u32) -> Error {
    match error.message().strip_prefix(handler) {
        Some(rest) if rest.starts_with(" (") => error,
        _ => error.within(format_args!("{handler} ({})", stage_name(stage))),
    }
}

/// The message of a call that is refused: who refuses it at which stage, and then what `tell` finds
/// wrong; and its code.
pub(crate) fn message(
    handler: &str,
    stage: u32,
    tell: &mut dyn FnMut(&mut Problems<'_>),
) -> (String, ErrorCode) {
    let mut text = String::with_capacity(256);
    put(&mut text, &[handler, " (", &stage_name(stage), "): "]);
    let mut problems = Problems::new(&mut text, "\n  ");
    tell(&mut problems);
    let (count, start) = (problems.count, problems.start);
    let code = problems.code();
    match count {
        0 => text.push_str("the call was refused, but a second look found nothing wrong with it"),
        1 => {}
        _ => text.insert_str(start, &format!("{count} problems\n  ")),
    }
    (text, code)
}
