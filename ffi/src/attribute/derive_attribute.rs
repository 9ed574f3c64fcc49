//! Runtime support for `#[derive(Attribute)]`: decodes structs from dictionaries or from the
//! handler's attributes, and explains values that did not decode.

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
    /// The declarations of the fields, sorted by name.
    const MEMBERS: &'static [Param];

    /// Decodes the fields from the dictionary. Returns the struct and the number of entries that it
    /// uses. The first of these entries is probably at index `cursor`.
    fn decode(dictionary: Dictionary<'f>, cursor: usize) -> Option<(Self, usize)>;

    /// Reports the problem of each field.
    fn explain(dictionary: Dictionary<'f>, problems: &mut Problems<'_>);
}

/// The type of a field: an attribute type or an `Option` of an attribute type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an attribute",
    label = "not a number, `bool`, a string, an array or a type that implements `Attribute`",
    note = "if the type is yours, write `#[derive(xla_ffi::Attribute)]` on it"
)]
pub trait Member<'f>: Sized {
    /// The declaration of the field in the manifest.
    const PARAM: Param;

    /// Decodes the field from an attribute, which may be absent.
    fn from_value(value: Option<AttrValue<'f>>, narrow: bool) -> Option<Self>;

    /// Reports the problem of the entry `name`.
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

// SAFETY: attributes do not access operands.

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

/// Decodes a struct from a dictionary that has exactly the struct's entries.
#[inline(always)]
pub fn struct_from_dictionary<'f, T: Attributes<'f>>(value: AttrValue<'f>) -> Option<T> {
    let dictionary = <Dictionary as Attribute>::decode(value, false)?;
    let (value, found) = T::decode(dictionary, 0)?;
    (found == dictionary.len()).then_some(value)
}

/// Explains why a struct did not decode.
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

/// Explains why an integer does not select a variant of the enumeration.
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

/// Explains why a string does not select a variant of the enumeration.
#[cold]
pub fn explain_name(value: AttrValue<'_>, narrow: bool, _name: &str, known: &[&str]) -> String {
    match <&str as Attribute>::decode(value, narrow) {
        Some(text) => format!("expected one of {known:?}, got {text:?}"),
        None => format!("expected one of {known:?}, got {}", value.describe()),
    }
}

/// Explains why a value has none of the types that the enumeration accepts.
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

/// Returns true if the call has the attribute of the parameter at `at`. Used by the macros.
#[must_use]
pub fn has_attr(frame: &Frame<'_>, at: &At) -> bool {
    frame.attrs().get(at.param.name, at.attr).is_some()
}

impl Range {
    /// Returns true unless the value is a number outside the range. Absent values and values of
    /// other types count as inside.
    #[inline(always)]
    #[must_use]
    pub fn contains(&self, value: Option<AttrValue<'_>>) -> bool {
        (self.min.is_none() && self.max.is_none()) || self.broken(value).is_none()
    }

    /// Returns the name and value of the violated bound, and the attribute's number. Returns `None`
    /// if the number is inside the range.
    fn broken(&self, value: Option<AttrValue<'_>>) -> Option<(&'static str, Bound, Wide)> {
        let value = value?;
        let number = value.number()?;
        // An `f32` value was rounded, so the bound is rounded in the same way: 0.1 as `f32` exceeds
        // 0.1.
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

    /// Reports which bound the value of the attribute `name` violates.
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

/// Returns true if `low` is at most `high`, and false if either number is NaN.
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
