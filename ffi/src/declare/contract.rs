//! Shape contracts, which are checked at compile time against the parameters and attributes of a
//! handler.

use crate::attribute::{AttrValue, Attribute};
use crate::declare::handler_info::HandlerInfo;
use crate::declare::stage_params::operands;
use crate::frame::Frame;
use crate::param::text::Text;
use crate::param::{AttrType, Param, Presence};
use xla_ffi_contract::{Clash, Declared, Form};
use xla_ffi_sys::XLA_FFI_DataType;

/// An integer attribute that a shape contract refers to by name.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub(crate) name: &'static str,
    /// The attribute's index in the sorted list of the handler's attributes if all attributes are
    /// present.
    position: usize,
    dtype: XLA_FFI_DataType,
    default: Option<i64>,
}

/// The reason why an attribute does not provide a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotGiven {
    /// The attribute is absent and has no default.
    Missing,
    /// The attribute is not an integer of the declared type.
    NoInteger,
    /// The attribute's value does not fit in an `i64`.
    TooLarge,
    /// The attribute's value, which is negative.
    Negative(i64),
}

/// Returns the integer attribute called `name`, or `None` if there is no such attribute. Used by
/// the macros.
#[must_use]
pub const fn given(info: &HandlerInfo, name: &'static str) -> Option<Given> {
    let Some(attr) = integer(info, name) else {
        return None;
    };
    let AttrType::Scalar(dtype) = attr.attr else {
        return None;
    };
    Some(Given {
        name,
        position: info.attr_position(name),
        dtype,
        default: default(attr),
    })
}

/// Returns true if an integer attribute called `name` has a value in every call. Used by the macros.
#[must_use]
pub const fn always_given(info: &HandlerInfo, name: &str) -> bool {
    match integer(info, name) {
        Some(attr) => matches!(attr.presence, Presence::Required) || default(attr).is_some(),
        None => true,
    }
}

const fn integer(info: &HandlerInfo, name: &str) -> Option<&'static Param> {
    use XLA_FFI_DataType as D;
    let Some(attr) = info.attr_called(name) else {
        return None;
    };
    match attr.attr {
        AttrType::Scalar(D::S8 | D::S16 | D::S32 | D::S64 | D::U8 | D::U16 | D::U32 | D::U64) => {
            Some(attr)
        }
        _ => None,
    }
}

/// Returns the default of an integer attribute, or `None` if the default is not a literal.
const fn default(attr: &Param) -> Option<i64> {
    let Some(json) = attr.default else {
        return None;
    };
    match i64::from_str_radix(json, 10) {
        Ok(value) => Some(value),
        Err(_) => None,
    }
}

impl Given {
    /// Returns the attribute's value in this call as a size.
    #[inline(always)]
    pub(crate) fn size(&self, frame: &Frame<'_>) -> Result<i64, NotGiven> {
        let size = match frame.attrs().get(self.name, self.position) {
            Some(value) => self.value(AttrValue(value))?,
            None => self.default.ok_or(NotGiven::Missing)?,
        };
        if size < 0 {
            return Err(NotGiven::Negative(size));
        }
        Ok(size)
    }

    #[inline(always)]
    fn value(&self, value: AttrValue<'_>) -> Result<i64, NotGiven> {
        use XLA_FFI_DataType as D;
        // The attribute's type is known at compile time, so the compiler removes all other arms.
        let exact = value.0.scalar().and_then(|scalar| match self.dtype {
            D::S8 => scalar.get::<i8>().map(i64::from),
            D::S16 => scalar.get::<i16>().map(i64::from),
            D::S32 => scalar.get::<i32>().map(i64::from),
            D::S64 => scalar.get::<i64>(),
            D::U8 => scalar.get::<u8>().map(i64::from),
            D::U16 => scalar.get::<u16>().map(i64::from),
            D::U32 => scalar.get::<u32>().map(i64::from),
            _ => None,
        });
        exact.map_or_else(|| narrowed(value), Ok)
    }
}

/// Decodes `u64` attributes, and attributes of types that the handler narrows.
#[cold]
fn narrowed(value: AttrValue<'_>) -> Result<i64, NotGiven> {
    i64::decode(value, true).ok_or(match value.get::<u64>() {
        Some(_) => NotGiven::TooLarge,
        None => NotGiven::NoInteger,
    })
}

/// Returns the size that an attribute provides, if there is such an attribute. Sets `good` to false if the attribute
/// provides no valid size. Used by the macros.
#[inline(always)]
pub fn size_given(frame: &Frame<'_>, given: Option<Given>, good: &mut bool) -> Option<i64> {
    let size = given?.size(frame).ok();
    *good &= size.is_some();
    size
}

/// Panics if the contract has more or fewer entries than the handler has operands. Used by the macros.
#[track_caller]
pub const fn counts_fit(params: &[Param], text: &str, args: usize, rets: usize) {
    if operands(params, true) == args && operands(params, false) == rets {
        return;
    }
    let message = Text::new().raw("the shape contract `").raw(text);
    let message = message.raw("` does not match the operands `");
    let message = names(message, params, true).raw(" -> ");
    let message = names(message, params, false);
    message.raw("`: write one entry per operand").fail();
}

const fn names(mut message: Text<256>, params: &[Param], args: bool) -> Text<256> {
    let (mut separator, mut i) = ("", 0);
    while i < params.len() {
        if params[i].takes(args) {
            message = message.raw(separator).raw(params[i].name);
            separator = ", ";
        }
        i += 1;
    }
    message
}

/// Panics if an entry does not match operand `index` among the arguments or the results. Used by the
/// macros.
#[track_caller]
pub const fn entry_fits(entry: Form, text: &str, params: &[Param], args: bool, index: usize) {
    let (mut seen, mut i) = (0, 0);
    while i < params.len() && (seen < index || !params[i].takes(args)) {
        seen += params[i].takes(args) as usize;
        i += 1;
    }
    if i == params.len() {
        return;
    }
    let Some(clash) = entry.clash(declared(&params[i])) else {
        return;
    };
    let message = Text::new().raw("the entry `").raw(text);
    let message = message.raw("` of the shape contract does not fit `");
    let message = message.raw(params[i].name).raw("`: ");
    let why = match (clash, params[i].presence) {
        (Clash::Token, _) => "`token` is for `Token` and `TokenOut` only",
        (Clash::Presence, Presence::Optional) => "write `?` after the entry of an optional operand",
        (Clash::Presence, Presence::Variadic) => "write `*` after the entry of remaining operands",
        (Clash::Presence, Presence::Required) => "remove `?` and `*`: the operand is required",
        (Clash::Rank, _) => "the entry needs as many dimensions as the operand",
    };
    message.raw(why).fail();
}

const fn declared(param: &Param) -> Declared {
    Declared {
        rank: param.rank,
        repeats: matches!(param.presence, Presence::Variadic),
        optional: matches!(param.presence, Presence::Optional),
        token: if param.dtypes.is_any() {
            None
        } else {
            Some(param.dtypes.is_only_token())
        },
    }
}
