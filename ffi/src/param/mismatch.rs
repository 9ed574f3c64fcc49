//! Explains the problems of an operand. Runs only for calls that fail.

use std::fmt::Write;

use crate::error::problems::{Problems, dims, number, put};
use crate::error::wording;
use crate::frame::Frame;
use crate::frame::element::{name, put_numpy, widens};
use crate::frame::raw_buffer::RawBuffer;
use crate::param::bind::At;
use crate::param::{Param, Presence};
use xla_ffi_sys::{ELEMENT_TYPES, Feature, XLA_FFI_DataType};

impl Problems<'_> {
    /// Reports problems of an argument, which may be missing.
    #[doc(hidden)]
    pub fn arg(&mut self, frame: &Frame<'_>, at: &At, align: usize) {
        if at.arg >= frame.arg_count() {
            return self.missing("argument", &at.param);
        }
        let raw = frame.arg(at.arg);
        self.operand(frame, "argument", at.arg, raw, &at.param, align);
    }

    /// Reports problems of a result, which may be missing.
    #[doc(hidden)]
    pub fn ret(&mut self, frame: &Frame<'_>, at: &At, align: usize) {
        if at.ret >= frame.ret_count() {
            return self.missing("result", &at.param);
        }
        let raw = frame.ret(at.ret);
        self.operand(frame, "result", at.ret, raw, &at.param, align);
    }

    /// Reports a missing operand or attribute.
    pub(crate) fn missing(&mut self, what: &str, param: &Param) {
        put(self.line(), &["missing ", what, " `", param.name, "`"]);
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
        // Hosts before r5 have no numbers for packed types, so the message explains the missing number instead of
        // "got element type 0".
        let lacks = raw.is_some_and(|raw| raw.dtype() == XLA_FFI_DataType::INVALID)
            && param.dtypes.has_packed()
            && frame.host().revision() < Feature::PackedElementTypes.since();
        self.other_than_lacks |= !lacks;
        let text = self.next();
        put(text, &[what, " `", param.name, "`"]);
        if matches!(param.presence, Presence::Variadic) {
            let _ = write!(text, " ({index})");
        }
        text.push_str(": ");
        if lacks {
            let host = frame.host();
            let lack = host.missing_feature(Feature::PackedElementTypes);
            text.push_str(lack.message());
        } else if let Some((raw, fault)) = wrong {
            describe_fault(text, fault, raw, param, what == "argument");
        } else {
            text.push_str(wording::NOT_A_BUFFER);
        }
    }
}

/// A reason why a buffer does not match its parameter.
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
    if let Some(rank) = param.rank {
        if raw.rank() != rank as i64 {
            return Some(Fault::Rank(rank));
        }
    }
    let Some((_, len)) = raw.shape() else {
        return Some(Fault::Count);
    };
    let known = dtype.bits().is_some();
    if !known && !param.device {
        return Some(Fault::UnknownSize);
    }
    if known && dtype.bytes_for(len).is_none() {
        return Some(Fault::Bytes);
    }
    if len > 0 && dtype != XLA_FFI_DataType::TOKEN && raw.data().is_null() {
        return Some(Fault::Null);
    }
    if len > 0 && !param.device && raw.data() as usize % align != 0 {
        return Some(Fault::Alignment(align));
    }
    None
}

fn describe_fault(
    text: &mut String,
    fault: Fault,
    raw: RawBuffer<'_>,
    param: &Param,
    is_arg: bool,
) {
    match fault {
        Fault::Dtype | Fault::Rank(_) => {
            let mut joint = "expected ";
            match fault {
                Fault::Rank(rank) if param.dtypes.is_any() => {
                    text.push_str("expected rank ");
                    number(text, rank as i64);
                }
                _ => param.dtypes.names().for_each(|name| {
                    put(text, &[joint, name]);
                    let unknown = "[?, ?, ?, ?, ?, ?, ?, ?, ?";
                    match param.rank {
                        Some(0) => text.push_str("[]"),
                        Some(rank) => {
                            put(text, &[unknown.get(..3 * rank - 1).unwrap_or(unknown), "]"])
                        }
                        None => {}
                    }
                    joint = " or ";
                }),
            }
            text.push_str(", got ");
            show(text, raw);
            if matches!(fault, Fault::Dtype) {
                advise(text, raw, param, is_arg);
            }
        }
        Fault::Count => {
            show(text, raw);
            text.push_str(wording::COUNT);
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
            text.push_str(wording::BYTES);
        }
        Fault::Null => {
            show(text, raw);
            text.push_str(wording::NULL_DATA);
        }
        Fault::Alignment(align) => {
            show(text, raw);
            let data = raw.data();
            let (at, multiple) = (wording::IS_AT, wording::NOT_A_MULTIPLE);
            let _ = write!(text, "{at}{data:p}{multiple}{align}");
        }
    }
}

/// Returns true if the rank is wrong or the dimensions are invalid.
pub(crate) fn is_misshapen(raw: RawBuffer<'_>, param: &Param) -> bool {
    param.rank.is_some_and(|rank| raw.rank() != rank as i64) || raw.shape().is_none()
}

/// Describes why a buffer does not match its parameter.
pub(crate) fn operand(raw: RawBuffer<'_>, param: &Param, align: usize) -> Option<String> {
    let fault = fault(raw, param, align)?;
    let mut text = String::new();
    describe_fault(&mut text, fault, raw, param, true);
    Some(text)
}

/// Suggests a fix for a wrong element type: a cast of the argument that loses no value, or a different type for the
/// result.
fn advise(text: &mut String, raw: RawBuffer<'_>, param: &Param, is_arg: bool) {
    if param.dtypes.is_any() {
        return;
    }
    for dtype in ELEMENT_TYPES.iter().map(|known| known.dtype) {
        if !param.dtypes.contains(dtype) {
            continue;
        }
        let before = text.len();
        // A result has no value yet, so it cannot be cast.
        if !is_arg && put_numpy(text, "; declare it as ", dtype) {
            return;
        }
        if is_arg && !param.name.is_empty() && widens(raw.dtype(), dtype) {
            put(text, &["; cast it: ", param.name]);
            if put_numpy(text, ".astype(", dtype) {
                return text.push(')');
            }
            text.truncate(before);
        }
    }
}

/// Appends a buffer's element type and dimensions, for example `F32[2, 3]`.
pub(crate) fn show(text: &mut String, raw: RawBuffer<'_>) {
    text.push_str(&name(raw.dtype()));
    dims(text, raw.raw_dims());
}
