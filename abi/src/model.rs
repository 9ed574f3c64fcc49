//! The layout model: the contents of a header, independent of its notation.
//!
//! Everything is kept by name, so that comments, macros and the order of declarations make no difference.
//!
//! Types have one notation for all sources (`*mut XLA_FFI_Error`, `u64`, `fn(*mut XLA_FFI_Foo_Args) -> *mut
//! XLA_FFI_Error`). Typedefs of numbers and functions are resolved; `const` in a pointer's target is kept.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The header that a set of layouts belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Header {
    /// `c_api.h`.
    Main,
    /// `record_c_api.h`.
    Record,
    /// `collectives_c_api.h`.
    Collectives,
    /// The header of an extension that no known jaxlib ships; no edition has it.
    Other,
}

impl Header {
    /// The headers that jaxlibs ship.
    pub const ALL: [Self; 3] = [Self::Main, Self::Record, Self::Collectives];

    /// Returns the file's name.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Main => "c_api.h",
            Self::Record => "record_c_api.h",
            Self::Collectives => "collectives_c_api.h",
            Self::Other => "the header of another extension",
        }
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_name())
    }
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The name.
    pub name: String,
    /// The type in the model's notation.
    #[serde(rename = "type")]
    pub ty: String,
    /// The offset in bytes from the start of the struct.
    pub offset: u64,
    /// The size in bytes.
    pub size: u64,
}

impl Field {
    /// Returns the byte after the field; for a bit-field, after its last bit.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset
            .saturating_add(self.bits_end().unwrap_or(self.size))
    }

    /// Returns true if the field is a bit-field.
    #[must_use]
    pub fn is_bits(&self) -> bool {
        self.bits_end().is_some()
    }

    fn bits_end(&self) -> Option<u64> {
        let (ty, first) = self.ty.rsplit_once(" bits from bit ")?;
        let (_, bits) = ty.rsplit_once(": ")?;
        let end = first.parse::<u64>().ok()?.checked_add(bits.parse().ok()?)?;
        Some(end.div_ceil(8))
    }

    /// Returns true if the field is a pointer to a function (a slot).
    #[must_use]
    pub fn is_function(&self) -> bool {
        self.ty.starts_with("fn(")
    }
}

/// A struct or union, and its layout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Struct {
    /// `sizeof`.
    pub size: u64,
    /// The alignment in bytes, derived from the size and the fields if a reader cannot determine it.
    pub align: u64,
    /// The value of the enumerator `NAME_STRUCT_SIZE`.
    pub struct_size: Option<u64>,
    /// Whether the struct is a union. A union of one field has the layout of a struct, but is passed differently.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_union: bool,
    /// The base classes in their order, with the contents of those that the model does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<String>,
    /// The fields in the order of their bytes, without those of the base classes.
    pub fields: Vec<Field>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(is: &bool) -> bool {
    !is
}

impl Struct {
    /// Returns the field called `name`.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the byte after the last field.
    #[must_use]
    pub fn fields_end(&self) -> u64 {
        self.fields.iter().map(Field::end).max().unwrap_or(0)
    }

    /// Returns the last field that `STRUCT_SIZE` includes.
    #[must_use]
    pub fn last_counted(&self) -> Option<&Field> {
        let end = self.struct_size?;
        self.fields.iter().find(|field| field.end() == end)
    }

    /// Returns the holes as start and end, including the hole after the last field.
    #[must_use]
    pub fn holes(&self) -> Vec<(u64, u64)> {
        let mut holes = Vec::new();
        let mut at = 0;
        for field in &self.fields {
            if field.offset > at {
                holes.push((at, field.offset));
            }
            at = at.max(field.end());
        }
        if self.size > at {
            holes.push((at, self.size));
        }
        holes
    }
}

/// An enumeration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enum {
    /// `sizeof`.
    pub size: u64,
    /// Whether the numbers are signed, if this does not follow from the values. Compilers use signed numbers only for
    /// an enumeration with a negative value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<bool>,
    /// Enumerators by name.
    pub values: BTreeMap<String, i64>,
}

impl Enum {
    /// Creates an enumeration of signed or unsigned numbers.
    pub(crate) fn new(size: u64, signed: bool, values: BTreeMap<String, i64>) -> Self {
        let as_values = values.values().any(|value| *value < 0);
        Self {
            size,
            signed: (signed != as_values).then_some(signed),
            values,
        }
    }

    /// Returns the underlying integer, such as `u32`.
    pub(crate) fn integer(&self) -> String {
        let as_values = self.values.values().any(|value| *value < 0);
        integer(self.size, self.signed.unwrap_or(as_values))
    }
}

/// All layouts of one header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abi {
    /// Complete structs.
    pub structs: BTreeMap<String, Struct>,
    /// Types that are declared but not defined.
    pub opaque: BTreeSet<String>,
    /// Named enumerations; unnamed ones only contribute their enumerators.
    pub enums: BTreeMap<String, Enum>,
    /// Function types (`typedef R NAME(A)`).
    pub functions: BTreeMap<String, String>,
    /// Functions that are declared for linking, not slots.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prototypes: BTreeMap<String, String>,
    /// Symbols of functions and variables that are linked under different names; only libclang finds them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, String>,
    /// Types of variables that are declared for linking.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Other typedefs that are more than a tag's name.
    pub aliases: BTreeMap<String, String>,
    /// Numbers: macros, and enumerators outside named enumerations.
    pub constants: BTreeMap<String, i64>,
}

/// The prefix of the ABI's names.
pub const PREFIX: &str = "XLA_FFI_";
pub(crate) const STRUCT_SIZE: &str = "_STRUCT_SIZE";

impl Abi {
    /// Returns true if there are no declarations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let has_types = !self.structs.is_empty() || !self.enums.is_empty();
        !has_types && self.functions.is_empty() && self.prototypes.is_empty()
    }

    /// Removes the declarations whose names are not wanted.
    pub(crate) fn keep(&mut self, wanted: impl Fn(&String) -> bool) {
        self.structs.retain(|name, _| wanted(name));
        self.opaque.retain(|name| wanted(name));
        self.enums.retain(|name, _| wanted(name));
        self.constants.retain(|name, _| wanted(name));
        for types in [
            &mut self.functions,
            &mut self.prototypes,
            &mut self.links,
            &mut self.variables,
            &mut self.aliases,
        ] {
            types.retain(|name, _| wanted(name));
        }
    }

    /// Returns the names of all declarations.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        let types = self
            .structs
            .keys()
            .chain(&self.opaque)
            .chain(self.enums.keys());
        let functions = self.functions.keys().chain(self.prototypes.keys());
        let functions = functions.chain(self.variables.keys());
        let others = self.aliases.keys().chain(self.constants.keys());
        types.chain(functions).chain(others)
    }

    /// Returns the names of all declarations, enumerators, slots and sizes.
    pub(crate) fn every_name(&self) -> impl Iterator<Item = String> {
        let enumerators = self.enums.values().flat_map(|layout| layout.values.keys());
        let fields = self.structs.values().flat_map(|layout| &layout.fields);
        let slots = fields
            .map(|field| &field.name)
            .filter(|name| name.starts_with(PREFIX));
        let sizes = self
            .structs
            .keys()
            .map(|name| format!("{name}{STRUCT_SIZE}"));
        self.names()
            .chain(enumerators)
            .chain(slots)
            .cloned()
            .chain(sizes)
    }

    /// Returns the header, determined by the structs that only it has.
    #[must_use]
    pub fn header(&self) -> Header {
        if self.structs.contains_key("XLA_FFI_Record_Extension")
            || self.structs.contains_key("XLA_FFI_RecordApi")
        {
            Header::Record
        } else if self.structs.contains_key("XLA_FFI_Collectives_Extension")
            || self
                .structs
                .contains_key("XLA_FFI_Communicator_Request_Args")
        {
            Header::Collectives
        } else if self.is_extension() {
            Header::Other
        } else {
            Header::Main
        }
    }

    /// Returns true if the header declares an extension and nothing that only the main header has.
    fn is_extension(&self) -> bool {
        let is_new =
            |name: &String| name.ends_with("_Extension") && name != "XLA_FFI_Metadata_Extension";
        let main = ["XLA_FFI_Api", "XLA_FFI_CallFrame", "XLA_FFI_Buffer"];
        self.structs.keys().any(is_new) && !main.iter().any(|name| self.structs.contains_key(*name))
    }

    /// Returns the version that the header states.
    #[must_use]
    pub fn version(&self) -> Option<(i64, i64)> {
        let [major, minor] = match self.header() {
            Header::Main => ["XLA_FFI_API_MAJOR", "XLA_FFI_API_MINOR"],
            Header::Record => [
                "XLA_FFI_Extension_Record_MajorVersion",
                "XLA_FFI_Extension_Record_MinorVersion",
            ],
            Header::Collectives => [
                "XLA_FFI_Extension_Collectives_MajorVersion",
                "XLA_FFI_Extension_Collectives_MinorVersion",
            ],
            Header::Other => ["_MajorVersion", "_MinorVersion"],
        };
        let number = |end: &str| {
            let mut named = self
                .constants
                .iter()
                .filter(|(name, _)| name.ends_with(end));
            named.next().map(|(_, value)| *value)
        };
        Some((number(major)?, number(minor)?))
    }

    /// Normalises a reader's result: `NAME_STRUCT_SIZE` joins its struct, defined types are not opaque, fields are
    /// sorted.
    pub(crate) fn settle(&mut self) {
        let constants = std::mem::take(&mut self.constants);
        for (name, value) in constants {
            match name
                .strip_suffix(STRUCT_SIZE)
                .and_then(|name| self.structs.get_mut(name))
            {
                Some(owner) => owner.struct_size = u64::try_from(value).ok(),
                None => {
                    self.constants.insert(name, value);
                }
            }
        }
        for layout in self.structs.values_mut() {
            layout
                .fields
                .sort_by_key(|field| (field.offset, field.size));
        }
        self.opaque
            .retain(|name| !self.structs.contains_key(name) && !self.aliases.contains_key(name));
    }
}

/// Writes `*mut T` or `*const T` for a pointer to `pointee`, which may start with `const `. A pointer to a function
/// is the function itself.
pub(crate) fn pointer_to(pointee: &str) -> String {
    if let Some(signature) = pointee.strip_prefix(FUNCTION) {
        signature.to_owned()
    } else if let Some(rest) = pointee.strip_prefix("const ") {
        format!("*const {rest}")
    } else {
        format!("*mut {pointee}")
    }
}

/// Returns the type of a bit-field that begins at bit `first` of its record. A bit-field with all bits of its type is
/// an ordinary field, because Clang's debug information does not distinguish the two.
pub(crate) fn bit_field(ty: String, size: u64, bits: u64, first: u64) -> String {
    let bit = first % 8;
    if bit == 0 && bits == size.saturating_mul(8) {
        return ty;
    }
    format!("{ty}: {bits} bits from bit {bit}")
}

/// Returns a type with qualifiers. Qualifiers of an array belong to its elements, `const` is first, and functions and
/// references have no qualifiers.
pub(crate) fn qualified(is_const: bool, is_volatile: bool, spelled: String) -> String {
    if !is_const && !is_volatile || spelled.starts_with(FUNCTION) || spelled.starts_with('&') {
        return spelled;
    }
    let element = spelled.trim_start_matches('[');
    let brackets = &spelled[..spelled.len() - element.len()];
    let (was_const, rest) = stripped(element, "const ");
    let (was_volatile, rest) = stripped(rest, "volatile ");
    let word = |is, word| if is { word } else { "" };
    format!(
        "{brackets}{}{}{rest}",
        word(is_const || was_const, "const "),
        word(is_volatile || was_volatile, "volatile ")
    )
}

/// Returns a type without its outermost qualifiers.
fn unqualified(spelled: &str) -> &str {
    stripped(stripped(spelled, "const ").1, "volatile ").1
}

fn stripped<'a>(spelled: &'a str, word: &str) -> (bool, &'a str) {
    match spelled.strip_prefix(word) {
        Some(rest) => (true, rest),
        None => (false, spelled),
    }
}

/// The type of a field whose type is in a different file.
pub(crate) const ELSEWHERE: &str = "(in another file)";

/// Marks a function type while a reader works, to distinguish a pointer to it (the slot's type) from a pointer to
/// that pointer.
pub(crate) const FUNCTION: &str = "function ";

/// Returns the signature of a function type or of a pointer to a function.
pub(crate) fn function_of(ty: &str) -> Option<&str> {
    let pointer = ty.starts_with("fn(").then_some(ty);
    ty.strip_prefix(FUNCTION).or(pointer)
}

/// Writes a pointer to a function; `result` is `void` if there is none.
pub(crate) fn function(parameters: &[String], result: &str) -> String {
    // Qualifiers of parameters are not part of a function's type.
    let parameters: Vec<&str> = parameters.iter().map(|one| unqualified(one)).collect();
    let (parameters, result) = (parameters.join(", "), unqualified(result));
    if result == "void" {
        format!("fn({parameters})")
    } else {
        format!("fn({parameters}) -> {result}")
    }
}

/// Writes a type that is not a struct of the model with its contents; only its name if it has no definition.
pub(crate) fn with_fields(name: &str, layout: &Struct) -> String {
    if layout.size == 0 && layout.fields.is_empty() {
        return name.to_owned();
    }
    let bases = layout.bases.iter().map(|base| format!("base {base}"));
    let fields = layout.fields.iter();
    let fields = fields.map(|field| format!("{}: {} at {}", field.name, field.ty, field.offset));
    // Bytes after the last field are also passed and returned.
    let size = (layout.size != layout.fields_end()).then(|| format!("{} bytes", layout.size));
    let inside = bases.chain(fields).chain(size).collect::<Vec<_>>();
    let inside = format!("{{{}}}", inside.join("; "));
    match layout.is_union {
        true => prefixed("union ", &format!("{name} {inside}")),
        false => format!("{name} {inside}"),
    }
}

/// Writes a type that is not an enumeration of the model with its values.
pub(crate) fn with_values(name: &str, layout: &Enum) -> String {
    let inside = layout.values.iter();
    let inside = inside.map(|(name, value)| format!("{name} = {value}"));
    // Most enumerations have the size of an `int`.
    let is_other = layout.size != 4 || layout.signed.is_some();
    let width = is_other.then(|| format!("held as {}", layout.integer()));
    let inside = inside.chain(width).collect::<Vec<_>>();
    format!("{name} {{{}}}", inside.join("; "))
}

/// Adds a qualifier to a type, after its other qualifiers.
fn prefixed(word: &str, spelled: &str) -> String {
    let rest = unqualified(spelled);
    let own = &spelled[..spelled.len() - rest.len()];
    format!("{own}{word}{rest}")
}

/// Returns the complex number of `bytes` bytes, whose parts C calls `part`.
pub(crate) fn complex(part: &str, bytes: u64) -> String {
    let half = bytes / 2;
    match part.trim() {
        "float" | "double" | "long double" | "_Float16" => {
            format!("complex f{}", half.saturating_mul(8))
        }
        part if part.contains("unsigned") => format!("complex {}", integer(half, false)),
        "char" | "signed char" | "short" | "int" | "long" | "long long" | "short int"
        | "long int" | "long long int" => format!("complex {}", integer(half, true)),
        other => format!("complex {other}"),
    }
}

/// Returns the name of an integer of `bytes` bytes.
pub(crate) fn integer(bytes: u64, signed: bool) -> String {
    format!(
        "{}{}",
        if signed { 'i' } else { 'u' },
        bytes.saturating_mul(8)
    )
}

/// Replaces whole identifiers in a type.
pub(crate) fn rename_in(ty: &str, renames: &BTreeMap<String, String>) -> String {
    map_words(ty, |word| renames.get(word).cloned())
}

/// Replaces identifiers in a text.
pub(crate) fn map_words(text: &str, new: impl Fn(&str) -> Option<String>) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split_inclusive(|c: char| !is_word(c));
    let mapped = words.map(|part| {
        let word = part.trim_end_matches(|c: char| !is_word(c));
        match new(word) {
            Some(new) => format!("{new}{}", &part[word.len()..]),
            None => part.to_owned(),
        }
    });
    mapped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_touch_whole_words() {
        let renames = BTreeMap::from([("A".to_owned(), "B".to_owned())]);
        assert_eq!(
            rename_in("fn(*mut A, AA) -> *const A", &renames),
            "fn(*mut B, AA) -> *const B"
        );
    }

    #[test]
    fn pointers_keep_const() {
        assert_eq!(pointer_to("const char"), "*const char");
        assert_eq!(pointer_to(&pointer_to("const X")), "*mut *const X");
        assert_eq!(pointer_to("function fn()"), "fn()");
        assert_eq!(pointer_to("fn()"), "*mut fn()");
    }
}
