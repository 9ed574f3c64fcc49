//! What is wrong with a call, all of it at once and by name. Nothing here runs on the way of a
//! call that succeeds.

use std::borrow::Cow;
use std::fmt::Write;

use crate::element::{bit_width, name};
use crate::frame::{Frame, RawBuffer};
use crate::param::{At, Counts, HandlerInfo, Kind, Param, Presence};
use xla_ffi_sys::{Revision, XLA_FFI_DataType};

/// Collects what is wrong with one call: a line for each problem. [`Bind::explain`] is given it.
///
/// [`Bind::explain`]: crate::Bind::explain
///
/// ```
/// use xla_ffi::{At, Bind, Frame, Param, Problems, Revision, prelude::*};
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
/// # use xla_ffi::internal;
/// let error = internal::call::<needs>("{}")?.run().unwrap_err();
/// assert_eq!(
///     error.message(),
///     "needs (execute): 2 problems\n  host: the host is older than 0.6\n  a problem of another kind"
/// );
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Debug)]
pub struct Problems<'a> {
    // Everything is written to one text: a call that is refused should not cost a dozen allocations.
    text: &'a mut String,
    // Where the first problem begins.
    start: usize,
    separator: &'static str,
    count: usize,
    other_than_lacks: bool,
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
        }
    }

    /// The text, ready for the next problem.
    fn next(&mut self) -> &mut String {
        if self.count > 0 {
            self.text.push_str(self.separator);
        }
        self.count += 1;
        self.text
    }

    /// Adds what a part of the context answered; `UNIMPLEMENTED` stays that if nothing else is
    /// wrong.
    pub fn context(&mut self, what: &str, error: &crate::Error) {
        if error.code() != crate::ErrorCode::Unimplemented {
            self.other_than_lacks = true;
        }
        let text = self.next();
        put(text, &[what, ": ", error.message()]);
    }

    /// Whether all that is wrong is that the host lacks something.
    fn unimplemented(&self) -> bool {
        self.count > 0 && !self.other_than_lacks
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

    /// Checks an argument; one that is not there is left to the check of their number.
    pub(crate) fn arg(&mut self, frame: &Frame<'_>, at: &At, align: usize) {
        if at.arg < frame.arg_count() {
            self.operand(
                frame,
                "argument",
                at.arg,
                frame.arg(at.arg),
                &at.param,
                align,
            );
        }
    }

    /// Checks a result; one that is not there is left to the check of their number.
    pub(crate) fn ret(&mut self, frame: &Frame<'_>, at: &At, align: usize) {
        if at.ret < frame.ret_count() {
            self.operand(frame, "result", at.ret, frame.ret(at.ret), &at.param, align);
        }
    }

    fn operand(
        &mut self,
        frame: &Frame<'_>,
        what: &str,
        index: usize,
        raw: Option<RawBuffer<'_>>,
        param: &Param,
        align: usize,
    ) {
        let wrong = match raw {
            Some(raw) => match fault(raw, param, align) {
                Some(fault) => Some((raw, fault)),
                None => return,
            },
            None => None,
        };
        // Hosts before r5 cannot name packed types: say so instead of "got element type 0".
        let lacks = raw.is_some_and(|raw| raw.dtype() == XLA_FFI_DataType::INVALID)
            && param.dtypes.has_packed()
            && frame.host().revision() < Revision::R5;
        self.other_than_lacks |= !lacks;
        let text = self.next();
        put(text, &[what, " `", param.name, "`"]);
        if matches!(param.presence, Presence::Variadic) {
            let _ = write!(text, " ({what} {index})");
        }
        text.push_str(": ");
        if lacks {
            let host = frame.host();
            let lack = host.lacks("element types of less than a byte", Revision::R5);
            text.push_str(lack.message());
        } else if let Some((raw, fault)) = wrong {
            tell(text, fault, raw, param);
        } else {
            text.push_str("not a buffer, or one that is shorter than the ABI's");
        }
    }
}

/// What keeps a buffer from being what a parameter wants.
#[derive(Clone, Copy)]
enum Fault {
    Dtype,
    Rank(usize),
    Count,
    UnknownSize,
    Bytes,
    Null,
    Alignment(usize),
}

fn fault(raw: RawBuffer<'_>, param: &Param, align: usize) -> Option<Fault> {
    let dtype = raw.dtype();
    if !param.dtypes.contains(dtype) {
        return Some(Fault::Dtype);
    }
    if let Some(rank) = param.rank
        && raw.rank() != rank as i64
    {
        return Some(Fault::Rank(rank));
    }
    let Some((_, len)) = raw.shape() else {
        return Some(Fault::Count);
    };
    let known = bit_width(dtype).is_some();
    if !known && !param.device {
        return Some(Fault::UnknownSize);
    }
    if known && crate::buffer::byte_size(dtype, len).is_none() {
        return Some(Fault::Bytes);
    }
    if len > 0 && dtype != XLA_FFI_DataType::TOKEN && raw.data().is_null() {
        return Some(Fault::Null);
    }
    if len > 0 && !param.device && !(raw.data() as usize).is_multiple_of(align) {
        return Some(Fault::Alignment(align));
    }
    None
}

fn tell(text: &mut String, fault: Fault, raw: RawBuffer<'_>, param: &Param) {
    match fault {
        Fault::Dtype => {
            text.push_str("expected ");
            let mut joint = "";
            for name in param.dtypes.names() {
                put(text, &[joint, name]);
                joint = " or ";
            }
            text.push_str(", got ");
            show(text, raw);
            let dtype = raw.dtype();
            if dtype == XLA_FFI_DataType::PRED {
                text.push_str("; booleans are `Pred`");
            } else if (dtype == XLA_FFI_DataType::F64 || dtype == XLA_FFI_DataType::S64)
                && let Some(cast) = numpy_name(param)
            {
                let name = if param.name.is_empty() {
                    "x"
                } else {
                    param.name
                };
                put(text, &["; cast it: ", name, ".astype(np.", cast, ")"]);
            }
        }
        Fault::Rank(rank) => {
            let _ = write!(text, "expected rank {rank}, got ");
            show(text, raw);
        }
        Fault::Count => {
            show(text, raw);
            text.push_str(" has a negative dimension, or more elements than can be counted");
        }
        Fault::UnknownSize => {
            show(text, raw);
            text.push_str(concat!(
                " has elements of a size that this SDK (",
                env!("CARGO_PKG_VERSION"),
                ") does not know; a newer one may"
            ));
        }
        Fault::Bytes => {
            show(text, raw);
            text.push_str(" takes more bytes than can be addressed");
        }
        Fault::Null => {
            show(text, raw);
            text.push_str(" has a null data pointer");
        }
        Fault::Alignment(align) => {
            show(text, raw);
            let data = raw.data();
            let _ = write!(
                text,
                " lies at {data:p}, which is not a multiple of {align}"
            );
        }
    }
}

/// Whether the rank is not the parameter's, or the dimensions are none.
pub(crate) fn is_misshapen(raw: RawBuffer<'_>, param: &Param) -> bool {
    param.rank.is_some_and(|rank| raw.rank() != rank as i64) || raw.shape().is_none()
}

/// What keeps a buffer from being what the parameter wants, as text.
pub(crate) fn operand(raw: RawBuffer<'_>, param: &Param, align: usize) -> Option<String> {
    let fault = fault(raw, param, align)?;
    let mut text = String::new();
    tell(&mut text, fault, raw, param);
    Some(text)
}

fn numpy_name(param: &Param) -> Option<&'static str> {
    [
        (XLA_FFI_DataType::F32, "float32"),
        (XLA_FFI_DataType::S32, "int32"),
        (XLA_FFI_DataType::U32, "uint32"),
    ]
    .into_iter()
    .find(|(dtype, _)| !param.dtypes.is_any() && param.dtypes.contains(*dtype))
    .map(|(_, name)| name)
}

/// Writes a buffer as text: `F32[2,3]`.
pub(crate) fn show(text: &mut String, raw: RawBuffer<'_>) {
    put(text, &[&*name(raw.dtype()), "["]);
    for (index, dim) in raw.raw_dims().iter().enumerate() {
        text.push_str(if index > 0 { "," } else { "" });
        number(text, *dim);
    }
    text.push(']');
}

/// Writes pieces of text.
#[inline(never)]
pub(crate) fn put(text: &mut String, pieces: &[&str]) {
    pieces.iter().for_each(|piece| text.push_str(piece));
}

/// Writes a number.
pub(crate) fn number(text: &mut String, number: i64) {
    let _ = write!(text, "{number}");
}

/// The name of a stage.
pub(crate) fn stage_name(stage: u32) -> Cow<'static, str> {
    Cow::Borrowed(match stage {
        0 => "instantiate",
        1 => "prepare",
        2 => "initialize",
        3 => "execute",
        4 => "record",
        other => return Cow::Owned(format!("number {other}")),
    })
}

fn counted(text: &mut String, count: usize, what: &str) {
    number(text, count as i64);
    put(text, &[" ", what, if count == 1 { "" } else { "s" }]);
}

fn check_count(
    what: &str,
    counts: Counts,
    got: usize,
    params: &[Param],
    problems: &mut Problems<'_>,
) {
    if counts.contains(got) {
        return;
    }
    let text = problems.line();
    text.push_str("expected ");
    if counts.min == counts.max {
        counted(text, counts.min, what);
    } else if counts.max == usize::MAX {
        text.push_str("at least ");
        counted(text, counts.min, what);
    } else {
        number(text, counts.min as i64);
        text.push_str(" to ");
        counted(text, counts.max, what);
    }
    let takes = if what == "argument" {
        Param::takes_arg
    } else {
        Param::takes_ret
    };
    let mut joint = " (";
    for param in params.iter().filter(|param| takes(param)) {
        put(text, &[joint, param.name]);
        joint = ", ";
    }
    text.push_str(if joint == ", " { "), got " } else { ", got " });
    number(text, got as i64);
}

/// Whether the numbers of operands and the names of attributes are what the stage declares. The
/// decoded parameters are not looked at.
pub(crate) fn frame(
    frame: &Frame<'_>,
    info: &HandlerInfo,
    params: &'static [Param],
    problems: &mut Problems<'_>,
) {
    if crate::entry::counts_matter(frame.stage(), params, true) {
        check_count(
            "argument",
            Counts::args(params),
            frame.arg_count(),
            params,
            problems,
        );
    }
    if crate::entry::counts_matter(frame.stage(), params, false) {
        check_count(
            "result",
            Counts::rets(params),
            frame.ret_count(),
            params,
            problems,
        );
    }
    if info.open_attrs {
        return;
    }
    let attrs = frame.attrs();
    for index in 0..attrs.len() {
        let name = attrs.name(index);
        if !info.attrs().any(|param| param.name.as_bytes() == name) {
            let text = problems.line();
            let name = String::from_utf8_lossy(name);
            put(
                text,
                &[
                    "attribute `",
                    &name,
                    "` is not known to the handler: it has ",
                ],
            );
            let mut joint = "";
            for param in info.attrs() {
                put(text, &[joint, param.name]);
                joint = ", ";
            }
            text.push_str(if joint.is_empty() { "none" } else { "" });
        }
    }
}

/// The overlaps between results and other operands, by name.
pub(crate) fn overlaps(frame: &Frame<'_>, params: &[Param], problems: &mut Problems<'_>) {
    use crate::bind::{Bind, Region};
    use crate::buffer::AnyBuffer;
    let region = |raw: Option<RawBuffer<'_>>| {
        raw.and_then(AnyBuffer::decode)
            .map_or(Region::EMPTY, |buffer| buffer.region())
    };
    // (what, name, region, position of the in-out partner among the arguments)
    let mut args = Vec::new();
    let mut rets = Vec::new();
    for param in params {
        let times = |first: usize, all: usize| match param.presence {
            Presence::Variadic => first..all.max(first),
            _ => first..first + 1,
        };
        if param.takes_ret() {
            for index in times(rets.len(), frame.ret_count()) {
                let partner = matches!(param.kind, Kind::InOut).then_some(args.len());
                rets.push((param.name, region(frame.ret(index)), partner));
            }
        }
        if param.takes_arg() {
            for index in times(args.len(), frame.arg_count()) {
                args.push((param.name, region(frame.arg(index))));
            }
        }
    }
    for (r, (ret_name, ret, partner)) in rets.iter().enumerate() {
        for (a, (arg_name, arg)) in args.iter().enumerate() {
            if *partner != Some(a) && ret.overlaps(*arg) {
                put(
                    problems.line(),
                    &[
                        "result `",
                        ret_name,
                        "` overlaps argument `",
                        arg_name,
                        "`; if the caller meant it (input_output_aliases), declare it: `InOut<T>`",
                    ],
                );
            }
        }
        for (other_name, other, _) in &rets[..r] {
            if ret.overlaps(*other) {
                let line = problems.line();
                put(
                    line,
                    &["result `", ret_name, "` overlaps result `", other_name, "`"],
                );
            }
        }
    }
}

/// The message of a call that is refused: who refuses it at which stage, and then what `tell` finds
/// wrong. Also whether all of it is that the host lacks something.
pub(crate) fn message(
    info: &HandlerInfo,
    stage: u32,
    tell: &mut dyn FnMut(&mut Problems<'_>),
) -> (String, bool) {
    let mut text = String::with_capacity(256);
    put(&mut text, &[info.name, " (", &stage_name(stage), "): "]);
    let mut problems = Problems::new(&mut text, "\n  ");
    tell(&mut problems);
    let (count, start) = (problems.count, problems.start);
    let unimplemented = problems.unimplemented();
    match count {
        0 => text.push_str("the call was refused, but a second look found nothing wrong with it"),
        1 => {}
        _ => text.insert_str(start, &format!("{count} problems\n  ")),
    }
    (text, unimplemented)
}
