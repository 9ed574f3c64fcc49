//! Explains what is wrong with an operand. Not used by calls that succeed.

use std::fmt::Write;

use crate::error::problems::{Problems, number, put};
use crate::error::wording;
use crate::frame::Frame;
use crate::frame::element::name;
use crate::frame::raw_buffer::RawBuffer;
use crate::param::bind::At;
use crate::param::{Kind, Param, Presence};
use xla_ffi_sys::{Feature, XLA_FFI_DataType};

impl Problems<'_> {
    /// Checks an argument; one that is not there is left to the check of their number.
    #[doc(hidden)]
    pub fn arg(&mut self, frame: &Frame<'_>, at: &At, align: usize) {
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
    #[doc(hidden)]
    pub fn ret(&mut self, frame: &Frame<'_>, at: &At, align: usize) {
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
            && frame.host().revision() < Feature::PackedElementTypes.since();
        self.other_than_lacks |= !lacks;
        let text = self.next();
        put(text, &[what, " `", param.name, "`"]);
        if matches!(param.presence, Presence::Variadic) {
            let _ = write!(text, " ({what} {index})");
        }
        text.push_str(": ");
        if lacks {
            let host = frame.host();
            let lack = host.missing_feature(Feature::PackedElementTypes);
            text.push_str(lack.message());
        } else if let Some((raw, fault)) = wrong {
            describe_fault(text, fault, raw, param);
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

fn describe_fault(text: &mut String, fault: Fault, raw: RawBuffer<'_>, param: &Param) {
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
                && !param.name.is_empty()
            {
                if let Some(cast) = numpy_name(param) {
                    // A result has no value yet that could be cast: the caller declares it.
                    if matches!(param.kind, Kind::Ret) {
                        put(text, &["; declare it as np.", cast]);
                    } else {
                        put(text, &["; cast it: ", param.name, ".astype(np.", cast, ")"]);
                    }
                }
            }
        }
        Fault::Rank(rank) => {
            let _ = write!(text, "expected rank {rank}, got ");
            show(text, raw);
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
            let (at, multiple) = (wording::LIES_AT, wording::NO_MULTIPLE);
            let _ = write!(text, "{at}{data:p}{multiple}{align}");
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
    describe_fault(&mut text, fault, raw, param);
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
