//! What is wrong with a call, all of it at once and by name. Nothing here runs on the way of a
//! call that succeeds.

use std::fmt::Write;

use crate::element::{bit_width, name};
use crate::frame::{Frame, RawBuffer};
use crate::param::{At, Counts, HandlerInfo, Kind, Param, Presence};
use xla_ffi_sys::{Revision, XLA_FFI_DataType};

/// Collects what is wrong with one call.
#[derive(Debug)]
pub struct Problems<'a> {
    lines: &'a mut Vec<String>,
    other_than_lacks: bool,
}

impl<'a> Problems<'a> {
    pub(crate) fn new(lines: &'a mut Vec<String>) -> Self {
        Self {
            lines,
            other_than_lacks: false,
        }
    }

    /// Adds what a part of the context answered; `UNIMPLEMENTED` stays that if nothing else is
    /// wrong.
    pub fn context(&mut self, what: &str, error: &crate::Error) {
        if error.code() != crate::ErrorCode::Unimplemented {
            self.other_than_lacks = true;
        }
        self.lines.push(format!("{what}: {error}"));
    }

    /// Whether all that is wrong is that the host lacks something.
    pub(crate) fn unimplemented(&self) -> bool {
        !self.lines.is_empty() && !self.other_than_lacks
    }

    /// Adds a problem: one line that names the parameter.
    pub fn push(&mut self, problem: impl Into<String>) {
        self.other_than_lacks = true;
        self.lines.push(problem.into());
    }

    /// Number of problems so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are none so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
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
            Some(raw) => operand(raw, param, align),
            None => Some("not a buffer, or one that is shorter than the ABI's".to_owned()),
        };
        if let Some(wrong) = wrong {
            let place = if matches!(param.presence, Presence::Variadic) {
                format!(" ({what} {index})")
            } else {
                String::new()
            };
            let who = format!("{what} `{}`{place}", param.name);
            // Hosts before r5 cannot name packed types: say so instead of "got element type 0".
            if raw.is_some_and(|raw| raw.dtype() == XLA_FFI_DataType::INVALID)
                && param.dtypes.has_packed()
                && frame.host().revision() < Revision::R5
            {
                let lack = frame
                    .host()
                    .lacks("element types of less than a byte", Revision::R5);
                self.context(&who, &lack);
            } else {
                self.push(format!("{who}: {wrong}"));
            }
        }
    }
}

/// What keeps a buffer from being what the parameter wants.
pub(crate) fn operand(raw: RawBuffer<'_>, param: &Param, align: usize) -> Option<String> {
    let dtype = raw.dtype();
    if !param.dtypes.contains(dtype) {
        let mut text = format!("expected {}, got {}", param.dtypes, shown(raw));
        if dtype == XLA_FFI_DataType::PRED {
            text.push_str("; booleans are `Pred`");
        } else if matches!(dtype, XLA_FFI_DataType::F64 | XLA_FFI_DataType::S64)
            && let Some(cast) = numpy_name(param)
        {
            let _ = write!(text, "; cast it: {}.astype(np.{cast})", param.name);
        }
        return Some(text);
    }
    if let Some(rank) = param.rank
        && raw.rank() != rank as i64
    {
        return Some(format!("expected rank {rank}, got {}", shown(raw)));
    }
    let Some((_, len)) = raw.shape() else {
        return Some(format!(
            "{} has a negative dimension, or more elements than can be counted",
            shown(raw)
        ));
    };
    if bit_width(dtype).is_none() && !param.device {
        return Some(format!(
            "{} has elements of a size that this SDK ({}) does not know; a newer one may",
            shown(raw),
            env!("CARGO_PKG_VERSION")
        ));
    }
    if bit_width(dtype).is_some() && crate::buffer::byte_size(dtype, len).is_none() {
        return Some(format!(
            "{} takes more bytes than can be addressed",
            shown(raw)
        ));
    }
    if len > 0 && dtype != XLA_FFI_DataType::TOKEN && raw.data().is_null() {
        return Some(format!("{} has a null data pointer", shown(raw)));
    }
    if param.device {
        return None;
    }
    if len > 0 && !(raw.data() as usize).is_multiple_of(align) {
        return Some(format!(
            "{} lies at {:p}, which is not a multiple of {align}",
            shown(raw),
            raw.data()
        ));
    }
    None
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

/// A buffer as text: `F32[2,3]`.
pub(crate) fn shown(raw: RawBuffer<'_>) -> String {
    let dims: Vec<String> = raw.raw_dims().iter().map(i64::to_string).collect();
    format!("{}[{}]", name(raw.dtype()), dims.join(","))
}

/// The name of a stage.
pub(crate) fn stage_name(stage: u32) -> String {
    match stage {
        0 => "instantiate".to_owned(),
        1 => "prepare".to_owned(),
        2 => "initialize".to_owned(),
        3 => "execute".to_owned(),
        4 => "record".to_owned(),
        other => format!("number {other}"),
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
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
    let expected = if counts.min == counts.max {
        counted(counts.min, what)
    } else if counts.max == usize::MAX {
        format!("at least {}", counted(counts.min, what))
    } else {
        format!("{} to {}", counts.min, counted(counts.max, what))
    };
    let names: Vec<&str> = params
        .iter()
        .filter(|param| {
            if what == "argument" {
                param.takes_arg()
            } else {
                param.takes_ret()
            }
        })
        .map(|param| param.name)
        .collect();
    let names = if names.is_empty() {
        String::new()
    } else {
        format!(" ({})", names.join(", "))
    };
    problems.push(format!("expected {expected}{names}, got {got}"));
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
            let known: Vec<&str> = info.attrs().map(|param| param.name).collect();
            let known = if known.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has {}", known.join(", "))
            };
            problems.push(format!(
                "attribute `{}` is not known to the handler: {known}",
                String::from_utf8_lossy(name)
            ));
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
                problems.push(format!(
                    "result `{ret_name}` overlaps argument `{arg_name}`; if the caller meant it \
                     (input_output_aliases), declare it: `InOut<T>`"
                ));
            }
        }
        for (other_name, other, _) in &rets[..r] {
            if ret.overlaps(*other) {
                problems.push(format!(
                    "result `{ret_name}` overlaps result `{other_name}`"
                ));
            }
        }
    }
}

/// The whole message.
pub(crate) fn message(info: &HandlerInfo, stage: u32, lines: &[String]) -> String {
    let head = format!("{} ({})", info.name, stage_name(stage));
    match lines {
        [] => {
            format!("{head}: the call was refused, but a second look found nothing wrong with it")
        }
        [line] => format!("{head}: {line}"),
        lines => {
            let mut text = format!("{head}: {} problems", lines.len());
            for line in lines {
                let _ = write!(text, "\n  {line}");
            }
            text
        }
    }
}
