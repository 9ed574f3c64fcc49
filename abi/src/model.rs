//! The layout model: the declarations of a header, whether they were read from the header, from debug information or
//! from JSON.
//!
//! Declarations are stored by name, so that comments, macros and the order of declarations have no effect.
//!
//! Types have the same notation for all sources (`*mut XLA_FFI_Error`, `u64`, `fn(*mut XLA_FFI_Foo_Args) -> *mut
//! XLA_FFI_Error`). Typedefs of numbers and functions are resolved; `const` in a pointer's target is kept.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The header file that declares the layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Header {
    /// The main header, `c_api.h`.
    Main,
    /// The header of the record extension, `record_c_api.h`.
    Record,
    /// The header of the collectives extension, `collectives_c_api.h`.
    Collectives,
    /// The header of an extension that no known jaxlib ships, so that the extension has no edition.
    Other,
}

impl Header {
    /// The header files that jaxlibs ship.
    pub const ALL: [Self; 3] = [Self::Main, Self::Record, Self::Collectives];

    /// Returns the name of the header file.
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

/// A field of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The name of the field.
    pub name: String,
    /// The field's type in the model's notation.
    #[serde(rename = "type")]
    pub ty: String,
    /// The field's offset in bytes from the start of the struct.
    pub offset: u64,
    /// The field's size in bytes.
    pub size: u64,
}

impl Field {
    /// Returns the offset of the byte after the field; for a bit-field, of the byte after its last bit.
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

    /// Returns true if the field is a slot, which is a pointer to a function.
    #[must_use]
    pub fn is_function(&self) -> bool {
        self.ty.starts_with("fn(")
    }
}

/// The layout of a struct or union.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Struct {
    /// The size of the struct in bytes.
    pub size: u64,
    /// The alignment in bytes. If a reader of layouts cannot determine the alignment, it is derived from the size and
    /// the fields.
    pub align: u64,
    /// The value of the constant `NAME_STRUCT_SIZE` for this struct, if the header defines it.
    pub struct_size: Option<u64>,
    /// Whether this is a union. A union of one field has the same layout as a struct, but is passed to functions
    /// differently.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_union: bool,
    /// The base classes in order. A base class that the model does not contain is written with its fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<String>,
    /// The fields in order of offset, without the fields of base classes.
    pub fields: Vec<Field>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(is: &bool) -> bool {
    !is
}

impl Struct {
    /// Returns the field with this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the offset of the byte after the last field.
    #[must_use]
    pub fn fields_end(&self) -> u64 {
        self.fields.iter().map(Field::end).max().unwrap_or(0)
    }

    /// Returns the last field whose bytes the constant `STRUCT_SIZE` counts.
    #[must_use]
    pub fn last_counted(&self) -> Option<&Field> {
        let end = self.struct_size?;
        self.fields.iter().find(|field| field.end() == end)
    }

    /// Returns the start and end offset of each hole between fields, including the hole after the last field.
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

/// The layout of an enumeration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enum {
    /// The size of the enumeration in bytes.
    pub size: u64,
    /// Whether the values are signed; `None` if the values determine this. By default, compilers use signed integers
    /// only for enumerations with a negative value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<bool>,
    /// The values of the enumerators by name.
    pub values: BTreeMap<String, i64>,
}

impl Enum {
    /// Creates an enumeration of `size` bytes with signed or unsigned values.
    pub(crate) fn new(size: u64, signed: bool, values: BTreeMap<String, i64>) -> Self {
        let as_values = values.values().any(|value| *value < 0);
        Self {
            size,
            signed: (signed != as_values).then_some(signed),
            values,
        }
    }

    /// Returns the integer type of the values, such as `u32`.
    pub(crate) fn integer(&self) -> String {
        let as_values = self.values.values().any(|value| *value < 0);
        integer(self.size, self.signed.unwrap_or(as_values))
    }
}

/// The layouts and other declarations of one header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abi {
    /// The structs and unions that the header defines.
    pub structs: BTreeMap<String, Struct>,
    /// The names of types that are declared but not defined.
    pub opaque: BTreeSet<String>,
    /// The named enumerations. Enumerators of unnamed enumerations are in `constants`.
    pub enums: BTreeMap<String, Enum>,
    /// The function types that the header declares as `typedef R NAME(A)`.
    pub functions: BTreeMap<String, String>,
    /// The types of functions that are declared for linking.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prototypes: BTreeMap<String, String>,
    /// The linker symbols of functions and variables whose symbol differs from their name. Only libclang provides these
    /// symbols.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, String>,
    /// The types of variables that are declared for linking.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Typedefs of types other than functions. Typedefs that only repeat the name of a struct or enumeration are
    /// omitted.
    pub aliases: BTreeMap<String, String>,
    /// Constants: macros that are numbers, and enumerators outside named enumerations.
    pub constants: BTreeMap<String, i64>,
}

/// The prefix of all names that the ABI's headers declare.
pub const PREFIX: &str = "XLA_FFI_";
pub(crate) const STRUCT_SIZE: &str = "_STRUCT_SIZE";

impl Abi {
    /// Returns true if the header has no declarations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let has_types = !self.structs.is_empty() || !self.enums.is_empty();
        !has_types && self.functions.is_empty() && self.prototypes.is_empty()
    }

    /// Removes all declarations for whose names `wanted` returns false.
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

    /// Returns the names of all top-level declarations.
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

    /// Returns the names of all declarations, enumerators, slots and struct-size constants.
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

    /// Returns the header file that declares structs with these names.
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

    /// Returns true if the header declares an extension and none of the main header's structs.
    fn is_extension(&self) -> bool {
        let is_new =
            |name: &String| name.ends_with("_Extension") && name != "XLA_FFI_Metadata_Extension";
        let main = ["XLA_FFI_Api", "XLA_FFI_CallFrame", "XLA_FFI_Buffer"];
        self.structs.keys().any(is_new) && !main.iter().any(|name| self.structs.contains_key(*name))
    }

    /// Returns the API version that the header declares, as major and minor.
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

    /// Completes the result of a reader: moves each `NAME_STRUCT_SIZE` to its struct, removes defined types from
    /// `opaque`, and sorts fields.
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

/// Returns the type of a pointer to `pointee`, which may start with `const `. For a type with the mark [`FUNCTION`],
/// removes the mark, because function types already mean pointers.
pub(crate) fn pointer_to(pointee: &str) -> String {
    if let Some(signature) = pointee.strip_prefix(FUNCTION) {
        signature.to_owned()
    } else if let Some(rest) = pointee.strip_prefix("const ") {
        format!("*const {rest}")
    } else {
        format!("*mut {pointee}")
    }
}

/// Returns the type of a bit-field that starts at bit `first` of its record. If the bit-field has all bits of its type,
/// returns the type, because Clang's debug information does not distinguish the two.
pub(crate) fn bit_field(ty: String, size: u64, bits: u64, first: u64) -> String {
    let bit = first % 8;
    if bit == 0 && bits == size.saturating_mul(8) {
        return ty;
    }
    format!("{ty}: {bits} bits from bit {bit}")
}

/// Returns a type with its qualifiers, `const` first. The qualifiers of an array apply to its elements. Functions and
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

/// The notation for a type that is in a different file of debug information.
pub(crate) const ELSEWHERE: &str = "(in another file)";

/// A mark that precedes a function type while a header is read. The mark distinguishes a pointer to a function, such as
/// a slot, from a pointer to such a pointer.
pub(crate) const FUNCTION: &str = "function ";

/// Returns a function type without the mark [`FUNCTION`]; `None` for other types.
pub(crate) fn function_of(ty: &str) -> Option<&str> {
    let pointer = ty.starts_with("fn(").then_some(ty);
    ty.strip_prefix(FUNCTION).or(pointer)
}

/// Returns the type of a pointer to a function. The text `void` as `result` means that the function returns nothing.
pub(crate) fn function(parameters: &[String], result: &str) -> String {
    // Qualifiers of parameters and results do not affect a function's type.
    let parameters: Vec<&str> = parameters.iter().map(|one| unqualified(one)).collect();
    let (parameters, result) = (parameters.join(", "), unqualified(result));
    if result == "void" {
        format!("fn({parameters})")
    } else {
        format!("fn({parameters}) -> {result}")
    }
}

/// Returns the name of a struct with its fields. Used for structs that the model does not contain. For undefined
/// structs, the result is only the name.
pub(crate) fn with_fields(name: &str, layout: &Struct) -> String {
    if layout.size == 0 && layout.fields.is_empty() {
        return name.to_owned();
    }
    let bases = layout.bases.iter().map(|base| format!("base {base}"));
    let fields = layout.fields.iter();
    let fields = fields.map(|field| format!("{}: {} at {}", field.name, field.ty, field.offset));
    // The size of a struct is part of the type, because functions also pass and return the padding at its end.
    let size = (layout.size != layout.fields_end()).then(|| format!("{} bytes", layout.size));
    let inside = bases.chain(fields).chain(size).collect::<Vec<_>>();
    let inside = format!("{{{}}}", inside.join("; "));
    match layout.is_union {
        true => prefixed("union ", &format!("{name} {inside}")),
        false => format!("{name} {inside}"),
    }
}

/// Returns the name of an enumeration with its enumerators. Used for enumerations that the model does not contain.
pub(crate) fn with_values(name: &str, layout: &Enum) -> String {
    let inside = layout.values.iter();
    let inside = inside.map(|(name, value)| format!("{name} = {value}"));
    // The text omits the integer type if it is `int`, which most enumerations have.
    let is_other = layout.size != 4 || layout.signed.is_some();
    let width = is_other.then(|| format!("held as {}", layout.integer()));
    let inside = inside.chain(width).collect::<Vec<_>>();
    format!("{name} {{{}}}", inside.join("; "))
}

/// Inserts `word` into a type, after the qualifiers and before the rest.
fn prefixed(word: &str, spelled: &str) -> String {
    let rest = unqualified(spelled);
    let own = &spelled[..spelled.len() - rest.len()];
    format!("{own}{word}{rest}")
}

/// Returns the type of a complex number of `bytes` bytes. `part` is the C type of its real and imaginary parts.
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

/// Returns the name of an integer type of `bytes` bytes.
pub(crate) fn integer(bytes: u64, signed: bool) -> String {
    format!(
        "{}{}",
        if signed { 'i' } else { 'u' },
        bytes.saturating_mul(8)
    )
}

/// Replaces each identifier in a type that is a key of `renames` by its new name.
pub(crate) fn rename_in(ty: &str, renames: &BTreeMap<String, String>) -> String {
    map_words(ty, |word| renames.get(word).cloned())
}

/// Replaces each identifier in a text for which `new` returns a name.
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
