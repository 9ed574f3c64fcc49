//! The collected problems of one call, and the error message that lists them.

use std::borrow::Cow;

use crate::error::{Error, ErrorCode};
use xla_ffi_sys::XLA_FFI_ExecutionStage;

/// Collects the problems of one call, one line per problem. [`Bind::explain`] adds problems.
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
    // All problems are in one string, so that a rejected call needs few allocations.
    text: &'a mut String,
    // The offset of the first problem in the text.
    start: usize,
    separator: &'static str,
    count: usize,
    pub(crate) other_than_lacks: bool,
    /// The term for an attribute in messages: "attribute", or "entry" within a dictionary.
    pub(crate) noun: &'static str,
    /// The error code to use instead of the code that follows from the problems.
    code: Option<ErrorCode>,
}

impl<'a> Problems<'a> {
    /// Creates a collection that appends to `text`, with `separator` between problems.
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

    /// Appends a separator and returns the text, so that the caller can append the next problem.
    pub(crate) fn next(&mut self) -> &mut String {
        if self.count > 0 {
            self.text.push_str(self.separator);
        }
        self.count += 1;
        self.text
    }

    /// Adds the error of a context part. The rejection has the code `UNIMPLEMENTED` only if there are no other
    /// problems.
    pub fn context(&mut self, what: &str, error: &Error) {
        if error.code() != ErrorCode::Unimplemented {
            self.other_than_lacks = true;
        }
        let text = self.next();
        put(text, &[what, ": ", error.message()]);
    }

    /// Sets the code of the rejection, because the host is unsupported.
    #[cfg(feature = "internal")]
    pub(crate) fn refuse(&mut self, code: ErrorCode) {
        self.code = Some(code);
    }

    /// Returns the code of the rejection: `UNIMPLEMENTED` if every problem is a feature that the host lacks.
    fn code(&self) -> ErrorCode {
        let lacks = self.count > 0 && !self.other_than_lacks;
        self.code.unwrap_or(if lacks {
            ErrorCode::Unimplemented
        } else {
            ErrorCode::InvalidArgument
        })
    }

    /// Appends a separator and returns the text, so that the caller can append one line that names the parameter.
    pub(crate) fn line(&mut self) -> &mut String {
        self.other_than_lacks = true;
        self.next()
    }

    /// Adds a problem: one line that names the parameter.
    pub fn push(&mut self, problem: impl AsRef<str>) {
        self.line().push_str(problem.as_ref());
    }

    /// Returns the number of problems so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there are no problems so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Appends each piece to the text.
#[inline(never)]
pub(crate) fn put(text: &mut String, pieces: &[&str]) {
    pieces.iter().for_each(|piece| text.push_str(piece));
}

/// Appends a number in decimal.
pub(crate) fn number(text: &mut String, number: i64) {
    text.push_str(&number.to_string());
}

/// Appends dimensions in the form `[2, 3]`.
pub(crate) fn dims(text: &mut String, dims: &[i64]) {
    let mut before = "[";
    for dim in dims {
        text.push_str(before);
        number(text, *dim);
        before = ", ";
    }
    text.push_str(if dims.is_empty() { "[]" } else { "]" });
}

/// Returns the name of a stage.
pub(crate) fn stage_name(stage: u32) -> Cow<'static, str> {
    match XLA_FFI_ExecutionStage(stage).lower_name() {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("number {stage}")),
    }
}

/// Adds the handler's name and the stage to an error that the handler returned, unless the error's text already
/// starts with the name.
pub(crate) fn named(error: Error, handler: &str, stage: u32) -> Error {
    match error.message().strip_prefix(handler) {
        Some(rest) if rest.starts_with(" (") => error,
        _ => error.within(format_args!("{handler} ({})", stage_name(stage))),
    }
}

/// Returns the message and the code for a rejected call. The message has the handler, the stage, and the problems
/// that `tell` adds.
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
    let mut code = problems.code();
    match count {
        0 => {
            // The second decoding found no problem, so the first decoding failed for a temporary reason whose error
            // was not kept.
            code = ErrorCode::Unavailable;
            text.push_str(
                "a request to the host failed and succeeded when it was repeated; call again",
            );
        }
        1 => {}
        _ => text.insert_str(start, &format!("{count} problems\n  ")),
    }
    (text, code)
}
