//! Mirrors, which are copies of the ABI in other languages. The module has their names, the layouts that they state,
//! and comparisons with a revision.

use crate::model::{Abi, ELSEWHERE, Field, PREFIX, STRUCT_SIZE};
use crate::spelling::signature;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A map from upstream's names to the names in a mirror.
///
/// ```
/// use xla_ffi_abi::declared::Edition;
/// use xla_ffi_abi::mirror::Names;
///
/// let abi = Edition::find("r10").unwrap().declared();
/// let names = Names::parse(r#"{ "prefix": "Ffi", "names": { "XLA_FFI_Buffer.dtype": "kind" } }"#)?;
/// assert!(names.unknown(&abi).is_empty());
/// assert_eq!(names.of("XLA_FFI_Buffer").as_deref(), Some("FfiBuffer"));
/// assert_eq!(names.field("XLA_FFI_Buffer", "dtype").as_deref(), Some("kind"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Names {
    /// The mirror's prefix instead of `XLA_FFI_`, for names that are not in `names`.
    prefix: Option<String>,
    /// Whether the mirror contains only the items whose names are in `names`.
    #[serde(default)]
    only: bool,
    /// The rule for the names of enumerators.
    #[serde(default)]
    enumerators: Enumerators,
    /// The mirror's names. The keys are upstream's names, such as `XLA_FFI_Buffer`, `XLA_FFI_Buffer.data` or
    /// `XLA_FFI_DataType_F32`. The value null means that the mirror omits the item.
    #[serde(default)]
    names: BTreeMap<String, Option<String>>,
}

/// The rule for the names of enumerators in a mirror.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Enumerators {
    /// Enumerators have their names without the enumeration's name.
    #[default]
    Plain,
    /// bindgen's defaults: enumerators are called `Enum_VALUE`, and fields whose names are Rust keywords end with `_`.
    Bindgen,
}

/// Keywords of Rust that are valid field names in C.
const KEYWORDS: [&str; 29] = [
    "abstract", "as", "async", "await", "become", "box", "crate", "dyn", "final", "fn", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "trait", "type", "unsafe", "unsized", "use", "where",
];

impl Names {
    /// Parses a naming map from JSON.
    ///
    /// # Errors
    /// A description of the first mistake in the map.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names: Self = serde_json::from_str(text)
            .map_err(|error| format!("the naming map does not parse: {error}"))?;
        // The valid names depend on the mirror's language, but the refused names are invalid in every language.
        let prefix = names.prefix.iter().filter(|prefix| !prefix.is_empty());
        let mut all = names.names.values().flatten().chain(prefix);
        match all
            .find(|name| name.trim() != *name || name.is_empty() || name.contains(char::is_control))
        {
            Some(name) => Err(format!("the naming map has an invalid name: {name:?}")),
            None => Ok(names),
        }
    }

    /// Returns the names in the map that a revision does not have. A misspelled name would leave a struct without a
    /// check.
    #[must_use]
    pub fn unknown(&self, abi: &Abi) -> Vec<&String> {
        let known: BTreeSet<String> = abi.every_name().collect();
        let field = |name: &str| {
            let (owner, field) = name.split_once('.')?;
            abi.structs.get(owner)?.field(field)
        };
        let names = self.names.keys();
        names
            .filter(|name| !known.contains(*name) && field(name).is_none())
            .collect()
    }

    /// Returns the mirror's names that mean two different items of the ABI, of which only one would be checked.
    #[must_use]
    pub fn ambiguous(&self, abi: &Abi) -> Vec<String> {
        fn twice<T: PartialEq>(
            told: &mut Vec<String>,
            all: impl Iterator<Item = (Option<String>, String, T)>,
        ) {
            let mut known: BTreeMap<String, (String, T)> = BTreeMap::new();
            for (theirs, ours, what) in all {
                let Some(theirs) = theirs else { continue };
                match known.get(&theirs) {
                    Some((other, same)) if *same != what => {
                        told.push(format!("{theirs} for both {other} and {ours}"));
                    }
                    _ => drop(known.insert(theirs, (ours, what))),
                }
            }
        }
        let mut told = Vec::new();
        let types = abi.structs.iter().map(|(name, layout)| {
            let fields = layout.fields.iter();
            let fields = fields.map(|field| (self.field(name, &field.name), field.offset));
            let layout = (layout.size, fields.collect::<Vec<_>>());
            (self.of(name), name.clone(), Ok(layout))
        });
        let enums = abi
            .enums
            .iter()
            .map(|(name, layout)| (self.of(name), name.clone(), Err(layout)));
        twice(&mut told, types.chain(enums));
        for (owner, layout) in &abi.structs {
            let fields = layout.fields.iter().map(|field| {
                let ours = format!("{owner}.{}", field.name);
                (self.field(owner, &field.name), ours, field.offset)
            });
            twice(&mut told, fields);
        }
        for (owner, layout) in &abi.enums {
            let values = layout.values.iter();
            let values =
                values.map(|(name, value)| (self.value(owner, name), name.clone(), *value));
            twice(&mut told, values);
        }
        told
    }

    /// Returns the mirror's name of a struct, enumeration, enumerator or constant; `None` if the mirror omits the item.
    #[must_use]
    pub fn of(&self, upstream: &str) -> Option<String> {
        match (self.names.get(upstream), &self.prefix) {
            (Some(name), _) => name.clone(),
            (None, _) if self.only => None,
            (None, Some(prefix)) => Some(format!(
                "{prefix}{}",
                upstream.strip_prefix(PREFIX).unwrap_or(upstream)
            )),
            (None, None) => Some(upstream.to_owned()),
        }
    }

    /// Returns the mirror's name of an enumerator in the enumeration `owner`; `None` if the mirror omits the
    /// enumerator.
    #[must_use]
    pub fn value(&self, owner: &str, upstream: &str) -> Option<String> {
        let name = self.of(upstream)?;
        match self.enumerators {
            Enumerators::Bindgen if !self.has_name_for(upstream) => {
                Some(format!("{}_{name}", self.of(owner)?))
            }
            _ => Some(name),
        }
    }

    /// Returns true if the map explicitly names the item `upstream`.
    pub(crate) fn has_name_for(&self, upstream: &str) -> bool {
        self.names.get(upstream).is_some_and(Option::is_some)
    }

    /// Returns the mirror's name of a struct's field; `None` if the mirror omits the field.
    #[must_use]
    pub fn field(&self, owner: &str, field: &str) -> Option<String> {
        match self.names.get(&format!("{owner}.{field}")) {
            Some(name) => name.clone(),
            None if self.enumerators == Enumerators::Bindgen && KEYWORDS.contains(&field) => {
                Some(format!("{field}_"))
            }
            None => Some(field.to_owned()),
        }
    }
}

/// A field's layout, as stated by a mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatedField {
    /// The field's offset in bytes from the start of the struct.
    pub offset: u64,
    /// The field's size in bytes; `None` if the mirror does not state the size.
    #[serde(default)]
    pub size: Option<u64>,
    /// The field's type if the type is a number: `i64`, `u32` or `f64`. Other types are not compared, because pointers
    /// and `const` are spelled differently in every language.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// Whether debug information has the field's type in a different file, so that the size is unknown.
    #[serde(skip)]
    pub is_elsewhere: bool,
}

/// A function's signature, as stated by a mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatedFunction {
    /// The sizes of the parameters in bytes, in order.
    pub parameters: Vec<u64>,
    /// The size of the result in bytes, or 0 if the function returns nothing.
    pub result: u64,
}

/// A struct's layout, as stated by a mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatedStruct {
    /// The size of the struct in bytes.
    pub size: u64,
    /// The alignment in bytes; `None` if the mirror does not state the alignment.
    #[serde(default)]
    pub align: Option<u64>,
    /// The fields of the struct, by the mirror's names.
    #[serde(default)]
    pub fields: BTreeMap<String, StatedField>,
}

/// An enumeration, as stated by a mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatedEnum {
    /// The size of the enumeration in bytes; `None` if the mirror does not state the size.
    #[serde(default)]
    pub size: Option<u64>,
    /// The values of the enumerators, by the mirror's names.
    #[serde(default)]
    pub values: BTreeMap<String, i64>,
}

/// The layouts that a mirror states, under the mirror's names. The JSON form is the file for `abi check --layout`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// The structs, by the mirror's names.
    #[serde(default)]
    pub structs: BTreeMap<String, StatedStruct>,
    /// The enumerations, by the mirror's names.
    #[serde(default)]
    pub enums: BTreeMap<String, StatedEnum>,
    /// The functions and the function types of slots, by the mirror's names.
    #[serde(default)]
    pub functions: BTreeMap<String, StatedFunction>,
    /// The constants outside enumerations, including `NAME_STRUCT_SIZE`, by the mirror's names.
    #[serde(default)]
    pub constants: BTreeMap<String, i64>,
}

/// The result of comparing a mirror's layouts with a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The number of structs, enumerations and functions that were compared.
    pub judged: usize,
    /// The differences as text. Each text starts with the mirror's name of an item.
    pub mistakes: Vec<String>,
    /// Structs and enumerations that the mirror does not state, and fields whose types are in a different file of debug
    /// information.
    pub absent: Vec<String>,
}

impl Layout {
    /// Parses JSON that a mirror's program printed.
    ///
    /// # Errors
    /// A description of the first mistake in the JSON.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("the layout does not parse: {error}"))
    }

    /// Returns the layouts that a correct mirror of a revision states. `names` contains the mirror's names.
    #[must_use]
    pub fn of(abi: &Abi, names: &Names) -> Self {
        let mut layout = Self::default();
        for (name, known) in &abi.structs {
            let Some(theirs) = names.of(name) else {
                continue;
            };
            let fields = known.fields.iter().filter_map(|field| {
                Some((names.field(name, &field.name)?, StatedField::of(field)))
            });
            let stated = StatedStruct {
                size: known.size,
                align: Some(known.align),
                fields: fields.collect(),
            };
            layout.structs.insert(theirs, stated);
        }
        let mut values_alone = BTreeMap::new();
        for (name, known) in &abi.enums {
            let values = known.values.iter();
            let Some(theirs) = names.of(name) else {
                let values = values.filter(|(value, _)| names.has_name_for(value));
                values_alone
                    .extend(values.filter_map(|(value, number)| Some((names.of(value)?, *number))));
                continue;
            };
            let values =
                values.filter_map(|(value, number)| Some((names.value(name, value)?, *number)));
            let stated = StatedEnum {
                size: Some(known.size),
                values: values.collect(),
            };
            layout.enums.insert(theirs, stated);
        }
        for (name, ty) in abi.functions.iter().chain(&abi.prototypes) {
            let stated = names.of(name).zip(StatedFunction::of(abi, ty));
            layout.functions.extend(stated);
        }
        let constants = abi.constants.iter();
        let sizes = abi.structs.iter().filter_map(|(name, known)| {
            let size = i64::try_from(known.struct_size?).ok()?;
            Some((names.of(&format!("{name}{STRUCT_SIZE}"))?, size))
        });
        layout.constants = constants
            .filter_map(|(name, number)| Some((names.of(name)?, *number)))
            .chain(sizes)
            .chain(values_alone)
            .collect();
        layout
    }

    /// Adds the layouts in `other`. If `self` and `other` contradict each other, adds nothing and returns false.
    pub(crate) fn absorb(&mut self, other: &Self) -> bool {
        fn agrees<T: PartialEq>(ours: &BTreeMap<String, T>, theirs: &BTreeMap<String, T>) -> bool {
            let mut theirs = theirs.iter();
            theirs.all(|(name, one)| ours.get(name).is_none_or(|known| known == one))
        }
        let agree = agrees(&self.structs, &other.structs)
            && agrees(&self.enums, &other.enums)
            && agrees(&self.constants, &other.constants);
        if agree {
            self.structs.extend(other.structs.clone());
            self.enums.extend(other.enums.clone());
            self.constants.extend(other.constants.clone());
        }
        agree
    }

    /// Compares the stated layouts with a revision.
    ///
    /// A missing field or value is a mistake unless the naming map omits it. Without this rule, a mirror that lacks the
    /// last field of a struct would pass.
    #[must_use]
    pub fn compare(&self, abi: &Abi, names: &Names) -> Comparison {
        let expected = Self::of(abi, names);
        let mut told = Comparison::default();
        for (name, known) in &expected.structs {
            let Some(stated) = self.structs.get(name) else {
                told.absent.push(name.clone());
                continue;
            };
            told.judged += 1;
            stated.compare(name, known, &mut told);
        }
        for (name, known) in &expected.enums {
            let Some(stated) = self.enums.get(name) else {
                told.absent.push(name.clone());
                continue;
            };
            told.judged += 1;
            if let (Some(size), Some(wanted)) = (stated.size, known.size) {
                if size != wanted {
                    told.mistakes
                        .push(format!("{name} is {size} bytes, expected {wanted}"));
                }
            }
            compare_numbers(
                &format!("{name}."),
                &stated.values,
                &known.values,
                &mut told.mistakes,
            );
        }
        for (name, known) in &expected.functions {
            if let Some(stated) = self.functions.get(name) {
                told.judged += 1;
                stated.compare(name, known, &mut told.mistakes);
            }
        }
        let (known, unstated): (BTreeMap<String, i64>, BTreeMap<String, i64>) = expected
            .constants
            .into_iter()
            .partition(|(name, _)| self.constants.contains_key(name));
        let named = |name: &&String| names.names.values().flatten().any(|one| one == *name);
        told.judged += known.keys().filter(named).count();
        told.absent.extend(unstated.keys().filter(named).cloned());
        compare_numbers("", &self.constants, &known, &mut told.mistakes);
        let others = unknown(&self.structs, &expected.structs)
            .chain(unknown(&self.enums, &expected.enums))
            .chain(unknown(&self.functions, &expected.functions));
        for name in others {
            told.mistakes.push(format!(
                "{name} is not in this revision; map its name with --names"
            ));
        }
        told
    }
}

impl StatedField {
    /// Converts a field of the model to the form that a mirror states.
    pub(crate) fn of(field: &Field) -> Self {
        let is_elsewhere = field.size == 0 && field.ty.contains(ELSEWHERE);
        Self {
            offset: field.offset,
            size: (!is_elsewhere).then_some(field.size),
            number: is_number(&field.ty).then(|| field.ty.clone()),
            is_elsewhere,
        }
    }
}

/// Returns true if a type in the model's notation is a number or a bit-field.
fn is_number(ty: &str) -> bool {
    let (ty, _) = ty.split_once(": ").unwrap_or((ty, ""));
    let digits = ty.strip_prefix(['i', 'u', 'f']);
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

impl StatedFunction {
    /// Converts a function type to the form that a mirror states; `None` if the size of a parameter or result is
    /// unknown.
    fn of(abi: &Abi, ty: &str) -> Option<Self> {
        let (parameters, result) = signature(ty)?;
        let parameters = parameters.iter().map(|ty| size_of(abi, ty));
        Some(Self {
            parameters: parameters.collect::<Option<_>>()?,
            result: size_of(abi, result)?,
        })
    }

    fn compare(&self, name: &str, known: &Self, mistakes: &mut Vec<String>) {
        if self.parameters != known.parameters {
            let told = |function: &Self| -> String {
                let sizes: Vec<String> = function.parameters.iter().map(u64::to_string).collect();
                match sizes.as_slice() {
                    [] => "nothing".to_owned(),
                    sizes => format!("{} bytes", sizes.join(", ")),
                }
            };
            let (stated, wanted) = (told(self), told(known));
            mistakes.push(format!("{name} takes {stated}, expected {wanted}"));
        }
        if self.result != known.result {
            let (stated, wanted) = (self.result, known.result);
            mistakes.push(format!("{name} returns {stated} bytes, expected {wanted}"));
        }
    }
}

/// Returns the size in bytes of a parameter or result with the type `ty`; `None` if the size is unknown.
fn size_of(abi: &Abi, ty: &str) -> Option<u64> {
    let ty = ty.strip_prefix("const ").unwrap_or(ty);
    match ty {
        "void" => Some(0),
        "bool" | "char" => Some(1),
        _ if ty.starts_with(['*', '&']) || ty.starts_with("fn(") => Some(8),
        _ if is_number(ty) => ty[1..].parse::<u64>().ok().map(|bits| bits / 8),
        _ => {
            let of_struct = abi.structs.get(ty).map(|layout| layout.size);
            of_struct.or_else(|| abi.enums.get(ty).map(|layout| layout.size))
        }
    }
}

impl StatedStruct {
    fn compare(&self, name: &str, known: &Self, told: &mut Comparison) {
        let Comparison {
            mistakes, absent, ..
        } = told;
        if self.size != known.size {
            mistakes.push(format!(
                "{name} is {} bytes, expected {}",
                self.size, known.size
            ));
        }
        if let (Some(align), Some(wanted)) = (self.align, known.align) {
            if align != wanted {
                mistakes.push(format!("{name} is aligned to {align}, expected {wanted}"));
            }
        }
        for (field, wanted) in &known.fields {
            let Some(stated) = self.fields.get(field) else {
                mistakes.push(format!(
                    "{name}.{field} is missing, expected at byte {}",
                    wanted.offset
                ));
                continue;
            };
            if stated.offset != wanted.offset {
                mistakes.push(format!(
                    "{name}.{field} is at byte {}, expected {}",
                    stated.offset, wanted.offset
                ));
            }
            if stated.is_elsewhere {
                absent.push(format!("{name}.{field}"));
            }
            let sizes = stated.size.zip(wanted.size);
            let numbers = stated.number.as_ref().zip(wanted.number.as_ref());
            if let Some((size, wanted)) = sizes.filter(|(size, wanted)| size != wanted) {
                mistakes.push(format!(
                    "{name}.{field} has {size} bytes, expected {wanted}"
                ));
            } else if let Some((number, wanted)) =
                numbers.filter(|(stated, wanted)| stated != wanted)
            {
                mistakes.push(format!("{name}.{field} is {number}, expected {wanted}"));
            }
        }
        for field in unknown(&self.fields, &known.fields) {
            mistakes.push(format!("{name}.{field} is not a field of this revision"));
        }
    }
}

/// Returns the keys of `stated` that are not keys of `known`.
fn unknown<'a, T>(
    stated: &'a BTreeMap<String, T>,
    known: &BTreeMap<String, T>,
) -> impl Iterator<Item = &'a String> {
    stated.keys().filter(|name| !known.contains_key(*name))
}

fn compare_numbers(
    owner: &str,
    stated: &BTreeMap<String, i64>,
    known: &BTreeMap<String, i64>,
    mistakes: &mut Vec<String>,
) {
    for (name, wanted) in known {
        match stated.get(name) {
            Some(value) if value == wanted => {}
            Some(value) => mistakes.push(format!("{owner}{name} is {value}, expected {wanted}")),
            None => mistakes.push(format!("{owner}{name} is missing, expected {wanted}")),
        }
    }
    for name in unknown(stated, known) {
        mistakes.push(format!("{owner}{name} is not a value of this revision"));
    }
}
