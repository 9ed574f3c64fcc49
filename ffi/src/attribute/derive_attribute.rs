//! What `#[derive(Attribute)]` expands to: structs from dictionaries or from the handler's own
//! attributes, and the words for what did not decode.

use std::fmt::Display;

use crate::attribute::dictionary::Dictionary;
use crate::attribute::{AttrValue, Attribute, push_number, put_type};
use crate::error::problems::Problems;
use crate::frame::Frame;
use crate::frame::element::Wide;
use crate::param::bind::{At, Bind};
use crate::param::{AttrType, Bound, Param, Range};
use xla_ffi_sys::XLA_FFI_DataType;

/// A struct whose fields are attributes.
pub trait Attributes<'f>: Sized {
    /// The fields, sorted by name.
    const MEMBERS: &'static [Param];

    /// Decodes the fields; the first is probably at `cursor`. Also says how many entries were
    /// there.
    fn decode(dictionary: Dictionary<'f>, cursor: usize) -> Option<(Self, usize)>;

    /// Says what is wrong with each field.
    fn explain(dictionary: Dictionary<'f>, problems: &mut Problems<'_>);
}

/// The type of a field: an attribute, or an `Option` of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an attribute",
    label = "not a number, `bool`, a string, an array or a type that implements `Attribute`",
    note = "if the type is yours, write `#[derive(xla_ffi::Attribute)]` on it"
)]
pub trait Member<'f>: Sized {
    /// What the manifest says of it.
    const PARAM: Param;

    /// Decodes the value, which may be absent.
    fn from_value(value: Option<AttrValue<'f>>, narrow: bool) -> Option<Self>;

    /// Says what is wrong with the entry `name`.
    fn explain(
        dictionary: Dictionary<'f>,
        name: &str,
        narrow: bool,
        optional: bool,
        range: &Range,
        problems: &mut Problems<'_>,
    );
}

impl<'f, A: Attribute<'f>> Member<'f> for A {
    const PARAM: Param = Param::attribute(A::TYPE).with_members(A::MEMBERS);

    #[inline(always)]
    fn from_value(value: Option<AttrValue<'f>>, narrow: bool) -> Option<Self> {
        A::decode(value?, narrow)
    }

    fn explain(
        dictionary: Dictionary<'f>,
        name: &str,
        narrow: bool,
        optional: bool,
        range: &Range,
        problems: &mut Problems<'_>,
    ) {
        match dictionary.next(name, &mut 0) {
            Some(value) if A::decode(value, narrow).is_none() => problems.push(format!(
                "{} `{name}`: {}",
                problems.noun,
                A::explain(value, narrow, name)
            )),
            Some(value) => range.explain(value, name, problems),
            None if optional => {}
            None => problems.push(format!("missing {} `{name}`", problems.noun)),
        }
    }
}

impl<'f, A: Attribute<'f>> Member<'f> for Option<A> {
    const PARAM: Param = <A as Member>::PARAM.optional();

    #[inline(always)]
    fn from_value(value: Option<AttrValue<'f>>, narrow: bool) -> Option<Self> {
        match value {
            Some(value) => A::decode(value, narrow).map(Some),
            None => Some(None),
        }
    }

    fn explain(
        dictionary: Dictionary<'f>,
        name: &str,
        narrow: bool,
        _optional: bool,
        range: &Range,
        problems: &mut Problems<'_>,
    ) {
        <A as Member>::explain(dictionary, name, narrow, true, range, problems);
    }
}

/// A parameter whose fields are attributes of the handler.
#[derive(Debug)]
pub struct Flat<T>(pub T);

// SAFETY: takes no operand.

unsafe impl<'f, T: Attributes<'f>> Bind<'f> for Flat<T> {
    const PARAM: Param = Param::attributes(T::MEMBERS);

    #[inline(always)]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        let (value, _) = T::decode(Dictionary::new(frame.attrs()), at.attr)?;
        Some(Self(value))
    }

    fn explain(frame: &Frame<'f>, _at: &At, problems: &mut Problems<'_>) {
        T::explain(Dictionary::new(frame.attrs()), problems);
    }
}

/// A struct from a dictionary that has its fields and nothing else.
#[inline(always)]
pub fn struct_from_dictionary<'f, T: Attributes<'f>>(value: AttrValue<'f>) -> Option<T> {
    let dictionary = <Dictionary as Attribute>::decode(value, false)?;
    let (value, found) = T::decode(dictionary, 0)?;
    (found == dictionary.len()).then_some(value)
}

/// Why a struct did not decode.
#[cold]
pub fn explain_struct<'f, T: Attributes<'f>>(value: AttrValue<'f>, _name: &str) -> String {
    let Some(dictionary) = <Dictionary as Attribute>::decode(value, false) else {
        return format!("expected a dictionary, got {}", value.describe());
    };
    let mut text = String::new();
    let mut problems = Problems::new(&mut text, "; ");
    problems.noun = "entry";
    T::explain(dictionary, &mut problems);
    for (name, _) in dictionary.iter() {
        if !T::MEMBERS.iter().any(|member| member.name == name) {
            problems.push(format!("unknown entry `{name}`; remove it"));
        }
    }
    text
}

/// Why a number is no variant.
#[cold]
pub fn explain_number<'f, T: Attribute<'f> + Display>(
    value: AttrValue<'f>,
    narrow: bool,
    name: &str,
    known: &[(T, &str)],
) -> String {
    let Some(number) = T::decode(value, narrow) else {
        return <T as Attribute>::explain(value, narrow, name);
    };
    let known: Vec<String> = known
        .iter()
        .map(|(number, variant)| format!("{number} ({variant})"))
        .collect();
    format!("expected one of {}, got {number}", known.join(", "))
}

/// Why a string is no variant.
#[cold]
pub fn explain_name(value: AttrValue<'_>, narrow: bool, _name: &str, known: &[&str]) -> String {
    match <&str as Attribute>::decode(value, narrow) {
        Some(text) => format!("expected one of {known:?}, got {text:?}"),
        None => format!("expected one of {known:?}, got {}", value.describe()),
    }
}

/// Why a value is none of several types.
#[cold]
#[must_use]
pub fn explain_variants(value: AttrValue<'_>, types: &[AttrType]) -> String {
    let mut text = String::new();
    for ty in types {
        text.push_str(if text.is_empty() { "expected " } else { " or " });
        put_type(&mut text, *ty);
    }
    text + ", got " + &value.describe()
}

/// For the macros: whether the call has the attribute of this place.
#[must_use]
pub fn has_attr(frame: &Frame<'_>, at: &At) -> bool {
    frame.attrs().get(at.param.name, at.attr).is_some()
}

impl Range {
    /// Whether the value is absent, or a number within the bounds, or none: that is another problem.
    #[inline(always)]
    #[must_use]
    pub fn contains(&self, value: Option<AttrValue<'_>>) -> bool {
        (self.min.is_none() && self.max.is_none()) || self.broken(value).is_none()
    }

    /// Which bound the value breaks, and the number.
    fn broken(&self, value: Option<AttrValue<'_>>) -> Option<(&'static str, Bound, Wide)> {
        let value = value?;
        let number = value.number()?;
        // A bound is rounded as the value was: 0.1 of `f32` is more than 0.1.
        let is_single = value.0.scalar()?.dtype() == XLA_FFI_DataType::F32;
        let limit = |bound: &Bound| match bound.value {
            Wide::Float(float) if is_single => Wide::Float(f64::from(float as f32)),
            exact => exact,
        };
        if let Some(min) = self.min.filter(|min| !is_ordered(limit(min), number)) {
            return Some(("least ", min, number));
        }
        let max = self.max.filter(|max| !is_ordered(number, limit(max)))?;
        Some(("most ", max, number))
    }

    /// Says which bound the value of the attribute `name` breaks.
    #[cold]
    pub(crate) fn explain(&self, value: AttrValue<'_>, name: &str, problems: &mut Problems<'_>) {
        let Some((which, bound, number)) = self.broken(Some(value)) else {
            return;
        };
        let pieces = [problems.noun, " `", name, "`: expected at ", which];
        let text = problems.line();
        crate::error::problems::put(text, &pieces);
        push_number(text, bound.value);
        text.push_str(", got ");
        push_number(text, number);
    }
}

/// Whether the first is at most the second; not with a NaN.
fn is_ordered(low: Wide, high: Wide) -> bool {
    let float = |number| match number {
        Wide::Int(int) => int as f64,
        Wide::Float(float) => float,
    };
    match (low, high) {
        (Wide::Int(low), Wide::Int(high)) => low <= high,
        _ => float(low) <= float(high),
    }
}
