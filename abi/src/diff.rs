//! What changed between two sets of layouts, classified.

use crate::meaning::{self, Effect};
use crate::model::{Abi, Enum, Field, Struct, rename_in};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The class of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Class {
    /// A struct, enumeration, function type or name that was not there.
    Added,
    /// A field behind all others.
    AddedAtEnd,
    /// A field between others.
    Inserted,
    /// A field at another offset.
    Moved,
    /// Another size.
    Resized,
    /// The same size, another type.
    Retyped,
    /// The same thing under another name.
    Renamed,
    /// No longer there.
    Removed,
    /// An enumerator that was not there.
    EnumValueAdded,
    /// An enumerator with another value.
    EnumValueChanged,
    /// An enumerator under another name.
    EnumValueRenamed,
    /// An enumerator that is no longer there.
    EnumValueRemoved,
    /// `STRUCT_SIZE` counts up to another field.
    SizeMacroChanged,
    /// Another value of a macro or a free enumerator.
    ConstantChanged,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "added",
            Self::AddedAtEnd => "added at end",
            Self::Inserted => "inserted",
            Self::Moved => "moved",
            Self::Resized => "resized",
            Self::Retyped => "retyped",
            Self::Renamed => "renamed",
            Self::Removed => "removed",
            Self::EnumValueAdded => "enum value added",
            Self::EnumValueChanged => "enum value changed",
            Self::EnumValueRenamed => "enum value renamed",
            Self::EnumValueRemoved => "enum value removed",
            Self::SizeMacroChanged => "size macro changed",
            Self::ConstantChanged => "constant changed",
        })
    }
}

/// What sort of thing a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A whole struct.
    Struct,
    /// A field of a struct.
    Field,
    /// A function pointer in a table.
    Slot,
    /// A type that only the host knows.
    Opaque,
    /// An enumeration or an enumerator.
    Enum,
    /// A function type.
    Function,
    /// A typedef.
    Alias,
    /// A number.
    Constant,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its class.
    pub class: Class,
    /// What it is about.
    pub subject: Subject,
    /// The struct, enumeration or other thing, by its newer name.
    pub owner: String,
    /// The field or enumerator in it.
    pub member: Option<String>,
    /// How it was.
    pub was: Option<String>,
    /// How it is.
    pub now: Option<String>,
    /// Whether it only follows from another change in the list.
    pub follows: bool,
    /// What it means where handler and runtime differ.
    pub effect: Effect,
}

impl Change {
    fn new(class: Class, subject: Subject, owner: &str) -> Self {
        Self {
            class,
            subject,
            owner: owner.to_owned(),
            member: None,
            was: None,
            now: None,
            follows: false,
            effect: Effect::default(),
        }
    }

    fn member(mut self, member: &str) -> Self {
        self.member = Some(member.to_owned());
        self
    }

    fn was(mut self, was: impl Into<String>) -> Self {
        self.was = Some(was.into());
        self
    }

    fn now(mut self, now: impl Into<String>) -> Self {
        self.now = Some(now.into());
        self
    }

    fn follows(mut self, follows: bool) -> Self {
        self.follows = follows;
        self
    }

    /// `XLA_FFI_Buffer.rank`, or the owner alone.
    #[must_use]
    pub fn path(&self) -> String {
        match &self.member {
            Some(member) => format!("{}.{member}", self.owner),
            None => self.owner.clone(),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.path())?;
        match (&self.was, &self.now) {
            (Some(was), Some(now)) => write!(f, ", was {was}, is {now}"),
            (Some(was), None) => write!(f, ", was {was}"),
            (None, Some(now)) => write!(f, ", is {now}"),
            (None, None) => Ok(()),
        }
    }
}

/// How far two headers are apart: changes that follow from others hardly count.
#[must_use]
pub fn distance(changes: &[Change]) -> usize {
    changes
        .iter()
        .map(|change| if change.follows { 1 } else { 100 })
        .sum()
}

/// One line for each difference; empty where `a` and `b` are the same.
#[must_use]
pub fn differences(a: &Abi, b: &Abi) -> Vec<String> {
    if a == b {
        return Vec::new();
    }
    let lines: Vec<String> = changes(a, b).iter().map(ToString::to_string).collect();
    if lines.is_empty() {
        // Every part of the model has its class, so this says that one was forgotten.
        vec!["they differ in a way that has no class".to_owned()]
    } else {
        lines
    }
}

/// All changes from `old` to `new`; causes first, what follows from them behind.
#[must_use]
pub fn changes(old: &Abi, new: &Abi) -> Vec<Change> {
    let renames = Renames::find(old, new);
    let renamed = renames.apply(old);
    let mut diff = Diff {
        old: &renamed,
        new,
        changes: renames.changes(old, new),
    };
    diff.structs();
    diff.enums();
    diff.opaque();
    diff.functions();
    diff.aliases();
    diff.constants();
    let mut changes = diff.changes;
    follow_typedefs(&mut changes);
    // Something has to be the cause: where everything seems to follow, nothing does.
    if changes.iter().all(|change| change.follows) {
        for change in &mut changes {
            change.follows = false;
        }
    }
    for change in &mut changes {
        change.effect = meaning::of(change);
    }
    changes.sort_by_key(|change| change.follows);
    changes
}

/// Fields of a typedef'd type change with the typedef.
fn follow_typedefs(changes: &mut [Change]) {
    let causes: Vec<(String, String)> = changes
        .iter()
        .filter(|change| {
            change.class == Class::Retyped
                && !change.follows
                && matches!(change.subject, Subject::Function | Subject::Alias)
        })
        .filter_map(|change| Some((change.was.clone()?, change.now.clone()?)))
        .collect();
    for change in changes {
        let is_field = matches!(change.subject, Subject::Field | Subject::Slot)
            && matches!(change.class, Class::Retyped | Class::Resized);
        // "u32, 4 bytes" names a size behind the type.
        let same = |told: &Option<String>, ty: &str| {
            told.as_deref()
                .and_then(|told| told.strip_prefix(ty))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
        };
        if is_field
            && causes
                .iter()
                .any(|(was, now)| same(&change.was, was) && same(&change.now, now))
        {
            change.follows = true;
        }
    }
}

/// Names of types that changed while what they name stayed.
#[derive(Default)]
struct Renames {
    types: BTreeMap<String, String>,
    functions: BTreeMap<String, String>,
}

fn only<'a, V>(a: &'a BTreeMap<String, V>, b: &BTreeMap<String, V>) -> Vec<&'a String> {
    a.keys().filter(|name| !b.contains_key(*name)).collect()
}

/// How alike two names are: the bytes that they begin and end with in common.
fn likeness(a: &str, b: &str) -> usize {
    let same = |(x, y): &(u8, u8)| x == y;
    let front = a.bytes().zip(b.bytes()).take_while(same).count();
    let back = a
        .bytes()
        .rev()
        .zip(b.bytes().rev())
        .take_while(same)
        .count();
    front + back
}

impl Renames {
    fn find(old: &Abi, new: &Abi) -> Self {
        let mut renames = Self::default();
        renames.by_alias(old, new);
        renames.by_opaque(old, new);
        renames.by_enum(old, new);
        renames.by_slot(old, new);
        renames.by_layout(old, new);
        renames.by_function(old, new);
        renames
    }

    fn is_free(&self, new_name: &str) -> bool {
        !self.types.values().any(|taken| taken == new_name)
    }

    /// The new header keeps the old name as a typedef of the new one.
    fn by_alias(&mut self, old: &Abi, new: &Abi) {
        for (alias, target) in &new.aliases {
            let was = old.opaque.contains(alias) || old.structs.contains_key(alias);
            let is = new.opaque.contains(target) || new.structs.contains_key(target);
            let was_there = old.opaque.contains(target) || old.structs.contains_key(target);
            if was && is && !was_there {
                self.types.insert(alias.clone(), target.clone());
            }
        }
    }

    fn by_opaque(&mut self, old: &Abi, new: &Abi) {
        let gone: Vec<_> = old
            .opaque
            .difference(&new.opaque)
            .filter(|name| !self.types.contains_key(*name) && !new.structs.contains_key(*name))
            .collect();
        let come: Vec<_> = new
            .opaque
            .difference(&old.opaque)
            .filter(|name| self.is_free(name) && !old.structs.contains_key(*name))
            .collect();
        if let ([gone], [come]) = (gone.as_slice(), come.as_slice()) {
            self.types.insert((*gone).clone(), (*come).clone());
        }
    }

    fn by_enum(&mut self, old: &Abi, new: &Abi) {
        for gone in only(&old.enums, &new.enums) {
            let come = only(&new.enums, &old.enums)
                .into_iter()
                .filter(|come| self.is_free(come) && new.enums[*come] == old.enums[gone])
                .max_by_key(|come| likeness(gone, come));
            if let Some(come) = come {
                self.types.insert(gone.clone(), come.clone());
            }
        }
    }

    /// The functions at one place of the table take the argument structs of one another.
    fn by_slot(&mut self, old: &Abi, new: &Abi) {
        for (name, layout) in &old.structs {
            let Some(other) = new.structs.get(name) else {
                continue;
            };
            for (was, is) in renamed_fields(layout, other) {
                if !was.is_function() || !is.is_function() {
                    continue;
                }
                self.functions.insert(was.name.clone(), is.name.clone());
                let words = |ty: &str| -> Vec<String> {
                    ty.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                        .filter(|word| word.starts_with(crate::model::PREFIX))
                        .map(str::to_owned)
                        .collect()
                };
                for (from, to) in words(&was.ty).into_iter().zip(words(&is.ty)) {
                    let is_rename = old.structs.contains_key(&from)
                        && new.structs.contains_key(&to)
                        && !new.structs.contains_key(&from)
                        && !old.structs.contains_key(&to);
                    if is_rename && self.is_free(&to) {
                        self.types.entry(from).or_insert(to);
                    }
                }
            }
        }
    }

    /// Structs that differ in nothing but the name.
    fn by_layout(&mut self, old: &Abi, new: &Abi) {
        for gone in only(&old.structs, &new.structs) {
            if self.types.contains_key(gone) || new.opaque.contains(gone) {
                continue;
            }
            let come = only(&new.structs, &old.structs)
                .into_iter()
                .filter(|come| self.is_free(come) && !old.opaque.contains(*come))
                .filter(|come| {
                    let mut names = self.types.clone();
                    names.insert(gone.clone(), (*come).clone());
                    let was = rename_layout(&old.structs[gone], &names);
                    // Nothing holds two structs together but what their fields are called.
                    !was.fields.is_empty() && was.fields == new.structs[*come].fields
                })
                .max_by_key(|come| likeness(gone, come));
            if let Some(come) = come {
                self.types.insert(gone.clone(), come.clone());
            }
        }
    }

    fn by_function(&mut self, old: &Abi, new: &Abi) {
        for gone in only(&old.functions, &new.functions) {
            if self.functions.contains_key(gone) {
                continue;
            }
            let was = rename_in(&old.functions[gone], &self.types);
            let come = only(&new.functions, &old.functions)
                .into_iter()
                .filter(|come| {
                    new.functions[*come] == was
                        && !self.functions.values().any(|taken| taken == *come)
                })
                .max_by_key(|come| likeness(gone, come));
            if let Some(come) = come {
                self.functions.insert(gone.clone(), come.clone());
            }
        }
    }

    fn apply(&self, old: &Abi) -> Abi {
        let name = |name: &String| self.types.get(name).unwrap_or(name).clone();
        Abi {
            structs: old
                .structs
                .iter()
                .map(|(key, layout)| (name(key), rename_layout(layout, &self.types)))
                .collect(),
            opaque: old.opaque.iter().map(name).collect(),
            enums: old
                .enums
                .iter()
                .map(|(key, layout)| (name(key), layout.clone()))
                .collect(),
            functions: old
                .functions
                .iter()
                .map(|(key, ty)| {
                    let key = self.functions.get(key).unwrap_or(key);
                    (key.clone(), rename_in(ty, &self.types))
                })
                .collect(),
            aliases: old
                .aliases
                .iter()
                .map(|(key, ty)| (key.clone(), rename_in(ty, &self.types)))
                .collect(),
            constants: old.constants.clone(),
        }
    }

    fn changes(&self, old: &Abi, new: &Abi) -> Vec<Change> {
        let mut changes = Vec::new();
        for (was, now) in &self.types {
            let subject = if old.structs.contains_key(was) {
                Subject::Struct
            } else if old.enums.contains_key(was) {
                Subject::Enum
            } else {
                Subject::Opaque
            };
            changes.push(
                Change::new(Class::Renamed, subject, now)
                    .was(was.as_str())
                    .now(now.as_str()),
            );
        }
        for (was, now) in &self.functions {
            // Types of slots are renamed with their slot, which has its own line.
            let has_slot = new
                .structs
                .values()
                .any(|layout| layout.field(now).is_some_and(Field::is_function));
            if old.functions.contains_key(was) && new.functions.contains_key(now) {
                changes.push(
                    Change::new(Class::Renamed, Subject::Function, now)
                        .was(was.as_str())
                        .now(now.as_str())
                        .follows(has_slot),
                );
            }
        }
        changes
    }
}

fn rename_layout(layout: &Struct, renames: &BTreeMap<String, String>) -> Struct {
    let mut layout = layout.clone();
    for field in &mut layout.fields {
        field.ty = rename_in(&field.ty, renames);
    }
    layout
}

/// Pairs fields that only one side has by where they stand: the same bytes, or the same type
/// behind the same neighbour.
fn renamed_fields<'a>(old: &'a Struct, new: &'a Struct) -> Vec<(&'a Field, &'a Field)> {
    let is_pointer = |ty: &str| ty.starts_with(['*', '&']) || ty.starts_with("fn(");
    let before = |layout: &'a Struct, field: &Field| {
        let at = layout.fields.iter().position(|f| f.name == field.name)?;
        layout.fields.get(at.checked_sub(1)?)
    };
    let mut pairs: Vec<(&Field, &Field)> = Vec::new();
    for was in &old.fields {
        if new.field(&was.name).is_some() {
            continue;
        }
        let is = new.fields.iter().find(|is| {
            let free = old.field(&is.name).is_none()
                && !pairs.iter().any(|(_, taken)| taken.name == is.name);
            let same_bytes = is.offset == was.offset && is.size == was.size;
            let alike = is.ty == was.ty || (is_pointer(&is.ty) && is_pointer(&was.ty));
            let same_neighbour = is.ty == was.ty
                && before(old, was).map(|f| &f.name) == before(new, is).map(|f| &f.name);
            free && ((same_bytes && alike) || same_neighbour)
        });
        if let Some(is) = is {
            pairs.push((was, is));
        }
    }
    pairs
}

struct Diff<'a> {
    old: &'a Abi,
    new: &'a Abi,
    changes: Vec<Change>,
}

impl Diff<'_> {
    fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    fn structs(&mut self) {
        let (old, new) = (self.old, self.new);
        for (name, layout) in &old.structs {
            match new.structs.get(name) {
                Some(other) => self.layout(name, layout, other),
                None => self.push(
                    Change::new(Class::Removed, Subject::Struct, name)
                        .was(format!("{} bytes", layout.size)),
                ),
            }
        }
        for (name, layout) in &new.structs {
            if !old.structs.contains_key(name) {
                // The arguments of a new slot come with it.
                let has_slot = name.strip_suffix("_Args").is_some_and(|function| {
                    new.functions.contains_key(function) && !old.functions.contains_key(function)
                });
                self.push(
                    Change::new(Class::Added, Subject::Struct, name)
                        .now(format!("{} bytes", layout.size))
                        .follows(has_slot),
                );
            }
        }
    }

    fn layout(&mut self, name: &str, old: &Struct, new: &Struct) {
        if old == new {
            return;
        }
        let start = self.changes.len();
        let pairs = renamed_fields(old, new);
        let partner = |field: &Field| -> Option<&Field> {
            new.field(&field.name).or_else(|| {
                pairs
                    .iter()
                    .find(|(was, _)| was.name == field.name)
                    .map(|(_, is)| *is)
            })
        };
        let subject = |field: &Field| {
            if field.is_function() {
                Subject::Slot
            } else {
                Subject::Field
            }
        };
        let matched: Vec<(&Field, &Field)> = old
            .fields
            .iter()
            .filter_map(|was| Some((was, partner(was)?)))
            .collect();
        for (was, is) in &pairs {
            self.push(
                Change::new(Class::Renamed, subject(is), name)
                    .member(&is.name)
                    .was(was.name.as_str())
                    .now(is.name.as_str()),
            );
        }
        for was in &old.fields {
            if partner(was).is_none() {
                self.push(
                    Change::new(Class::Removed, subject(was), name)
                        .member(&was.name)
                        .was(format!("{} at {}", was.ty, was.offset)),
                );
            }
        }
        let last_kept = matched
            .iter()
            .filter_map(|(_, is)| new.fields.iter().position(|f| f.name == is.name))
            .max();
        for (index, is) in new.fields.iter().enumerate() {
            if matched.iter().any(|(_, other)| other.name == is.name) {
                continue;
            }
            // Bytes that belonged to a field before are no end.
            let at_end = last_kept.is_none_or(|last| index > last) && is.offset >= old.fields_end();
            let class = if at_end {
                Class::AddedAtEnd
            } else {
                Class::Inserted
            };
            self.push(
                Change::new(class, subject(is), name)
                    .member(&is.name)
                    .now(format!("{} at {}", is.ty, is.offset)),
            );
        }
        self.types(name, &matched);
        let has_cause = self.changes[start..]
            .iter()
            .any(|change| change.class != Class::Renamed && change.class != Class::Retyped);
        self.moves(name, &matched, new, has_cause);
        if self.changes.len() == start && (old.size, old.align) != (new.size, new.align) {
            self.push(
                Change::new(Class::Resized, Subject::Struct, name)
                    .was(format!("{} bytes, aligned to {}", old.size, old.align))
                    .now(format!("{} bytes, aligned to {}", new.size, new.align)),
            );
        }
        self.size_macro(name, old, new, &matched);
    }

    fn types(&mut self, name: &str, matched: &[(&Field, &Field)]) {
        for (was, is) in matched {
            let subject = if is.is_function() {
                Subject::Slot
            } else {
                Subject::Field
            };
            if was.size != is.size {
                // A member that is a struct grows with it.
                let follows = was.ty == is.ty
                    && (self.old.structs.contains_key(&is.ty)
                        || self.old.enums.contains_key(&is.ty));
                self.push(
                    Change::new(Class::Resized, subject, name)
                        .member(&is.name)
                        .was(format!("{}, {} bytes", was.ty, was.size))
                        .now(format!("{}, {} bytes", is.ty, is.size))
                        .follows(follows),
                );
            } else if was.ty != is.ty {
                self.push(
                    Change::new(Class::Retyped, subject, name)
                        .member(&is.name)
                        .was(was.ty.as_str())
                        .now(is.ty.as_str()),
                );
            }
        }
    }

    fn moves(&mut self, name: &str, matched: &[(&Field, &Field)], new: &Struct, has_cause: bool) {
        let order: Vec<usize> = matched
            .iter()
            .map(|(_, is)| {
                new.fields
                    .iter()
                    .position(|f| f.name == is.name)
                    .unwrap_or(0)
            })
            .collect();
        let kept = longest_rising(&order);
        let any_out_of_order = kept.len() < matched.len();
        for (index, (was, is)) in matched.iter().enumerate() {
            if was.offset == is.offset {
                continue;
            }
            let subject = if is.is_function() {
                Subject::Slot
            } else {
                Subject::Field
            };
            let exchanged = matched.iter().any(|(other_was, other_is)| {
                other_was.offset == is.offset && other_is.offset == was.offset
            });
            // A field that kept its place among the others was pushed by a cause.
            let pushed = kept.contains(&index) && !exchanged && (has_cause || any_out_of_order);
            self.push(
                Change::new(Class::Moved, subject, name)
                    .member(&is.name)
                    .was(format!("byte {}", was.offset))
                    .now(format!("byte {}", is.offset))
                    .follows(pushed),
            );
        }
    }

    fn size_macro(&mut self, name: &str, old: &Struct, new: &Struct, matched: &[(&Field, &Field)]) {
        if old.struct_size == new.struct_size {
            return;
        }
        let (was, is) = (old.last_counted(), new.last_counted());
        let same_field = match (was, is) {
            (Some(was), Some(is)) => matched
                .iter()
                .any(|(a, b)| a.name == was.name && b.name == is.name),
            _ => false,
        };
        let is_last = |layout: &Struct, field: Option<&Field>| {
            field.is_some_and(|field| field.end() == layout.fields_end())
        };
        let follows = same_field || (is_last(old, was) && is_last(new, is));
        let tell = |layout: &Struct| match (layout.struct_size, layout.last_counted()) {
            (Some(size), Some(field)) => format!("{size}, up to {}", field.name),
            (Some(size), None) => format!("{size}, which ends no field"),
            (None, _) => "none".to_owned(),
        };
        self.push(
            Change::new(Class::SizeMacroChanged, Subject::Struct, name)
                .was(tell(old))
                .now(tell(new))
                .follows(follows),
        );
    }

    fn enums(&mut self) {
        let (old, new) = (self.old, self.new);
        for (name, values) in &old.enums {
            match new.enums.get(name) {
                Some(other) => self.enumerators(name, values, other),
                None => self.push(
                    Change::new(Class::Removed, Subject::Enum, name)
                        .was(format!("{} values", values.values.len())),
                ),
            }
        }
        for (name, values) in &new.enums {
            if !old.enums.contains_key(name) {
                self.push(
                    Change::new(Class::Added, Subject::Enum, name)
                        .now(format!("{} values", values.values.len())),
                );
            }
        }
    }

    fn enumerators(&mut self, name: &str, old: &Enum, new: &Enum) {
        if old.size != new.size {
            self.push(
                Change::new(Class::Resized, Subject::Enum, name)
                    .was(format!("{} bytes", old.size))
                    .now(format!("{} bytes", new.size)),
            );
        }
        let mut taken = BTreeSet::new();
        for (value_name, value) in &old.values {
            if let Some(other) = new.values.get(value_name) {
                if other != value {
                    self.push(
                        Change::new(Class::EnumValueChanged, Subject::Enum, name)
                            .member(value_name)
                            .was(value.to_string())
                            .now(other.to_string()),
                    );
                }
                continue;
            }
            let renamed = new.values.iter().find(|(other_name, other)| {
                *other == value
                    && !old.values.contains_key(*other_name)
                    && !taken.contains(*other_name)
            });
            match renamed {
                Some((other_name, _)) => {
                    taken.insert(other_name);
                    self.push(
                        Change::new(Class::EnumValueRenamed, Subject::Enum, name)
                            .member(other_name)
                            .was(value_name.as_str())
                            .now(other_name.as_str()),
                    );
                }
                None => self.push(
                    Change::new(Class::EnumValueRemoved, Subject::Enum, name)
                        .member(value_name)
                        .was(value.to_string()),
                ),
            }
        }
        for (value_name, value) in &new.values {
            if !old.values.contains_key(value_name) && !taken.contains(value_name) {
                self.push(
                    Change::new(Class::EnumValueAdded, Subject::Enum, name)
                        .member(value_name)
                        .now(value.to_string()),
                );
            }
        }
    }

    fn opaque(&mut self) {
        let (old, new) = (self.old, self.new);
        for name in old.opaque.difference(&new.opaque) {
            // A type that became complete is an added struct.
            let completed = new.structs.contains_key(name);
            self.push(Change::new(Class::Removed, Subject::Opaque, name).follows(completed));
        }
        for name in new.opaque.difference(&old.opaque) {
            let emptied = old.structs.contains_key(name);
            self.push(Change::new(Class::Added, Subject::Opaque, name).follows(emptied));
        }
    }

    fn functions(&mut self) {
        let (old, new) = (self.old, self.new);
        let is_slot = |abi: &Abi, name: &str| {
            abi.structs
                .values()
                .any(|layout| layout.field(name).is_some_and(Field::is_function))
        };
        // A slot and the type of its function change together: the slot's line is the telling one.
        for (name, ty) in &old.functions {
            match new.functions.get(name) {
                Some(other) if other == ty => {}
                Some(other) => {
                    let slot_too = self.changes.iter().any(|change| {
                        change.class == Class::Retyped
                            && change.subject == Subject::Slot
                            && change.member.as_ref() == Some(name)
                    });
                    let change = Change::new(Class::Retyped, Subject::Function, name)
                        .was(ty.as_str())
                        .now(other.as_str())
                        .follows(slot_too);
                    self.push(change);
                }
                None => {
                    let change = Change::new(Class::Removed, Subject::Function, name)
                        .was(ty.as_str())
                        .follows(is_slot(old, name) && !is_slot(new, name));
                    self.push(change);
                }
            }
        }
        for (name, ty) in &new.functions {
            if !old.functions.contains_key(name) {
                let change = Change::new(Class::Added, Subject::Function, name)
                    .now(ty.as_str())
                    .follows(is_slot(new, name) && !is_slot(old, name));
                self.push(change);
            }
        }
    }

    fn aliases(&mut self) {
        let (old, new) = (self.old, self.new);
        for (name, ty) in &old.aliases {
            match new.aliases.get(name) {
                Some(other) if other == ty => {}
                Some(other) => self.push(
                    Change::new(Class::Retyped, Subject::Alias, name)
                        .was(ty.as_str())
                        .now(other.as_str()),
                ),
                None => {
                    self.push(Change::new(Class::Removed, Subject::Alias, name).was(ty.as_str()))
                }
            }
        }
        for (name, ty) in &new.aliases {
            if !old.aliases.contains_key(name) {
                // The old name of something renamed.
                let kept = self.changes.iter().any(|change| {
                    change.class == Class::Renamed && change.was.as_ref() == Some(name)
                });
                self.push(
                    Change::new(Class::Added, Subject::Alias, name)
                        .now(ty.as_str())
                        .follows(kept),
                );
            }
        }
    }

    fn constants(&mut self) {
        let (old, new) = (self.old, self.new);
        for (name, value) in &old.constants {
            match new.constants.get(name) {
                Some(other) if other == value => {}
                Some(other) => self.push(
                    Change::new(Class::ConstantChanged, Subject::Constant, name)
                        .was(value.to_string())
                        .now(other.to_string()),
                ),
                None => self.push(
                    Change::new(Class::Removed, Subject::Constant, name).was(value.to_string()),
                ),
            }
        }
        for (name, value) in &new.constants {
            if !old.constants.contains_key(name) {
                self.push(
                    Change::new(Class::Added, Subject::Constant, name).now(value.to_string()),
                );
            }
        }
    }
}

/// The indices of a longest rising subsequence.
fn longest_rising(values: &[usize]) -> BTreeSet<usize> {
    let mut length = vec![1; values.len()];
    let mut before = vec![None; values.len()];
    for i in 0..values.len() {
        for j in 0..i {
            if values[j] < values[i] && length[j] + 1 > length[i] {
                length[i] = length[j] + 1;
                before[i] = Some(j);
            }
        }
    }
    let mut at = (0..values.len()).max_by_key(|index| length[*index]);
    let mut kept = BTreeSet::new();
    while let Some(index) = at {
        kept.insert(index);
        at = before[index];
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rising_run_is_kept() {
        assert_eq!(longest_rising(&[0, 2, 1, 3]).len(), 3);
        assert_eq!(longest_rising(&[3, 2, 1]).len(), 1);
        assert!(longest_rising(&[]).is_empty());
    }
}
