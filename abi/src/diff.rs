//! What changed between two sets of layouts, classified.

mod layout;
mod names;
mod place;
mod rename;

use crate::meaning::{self, Effect};
use crate::model::Abi;
use crate::spelling;
use layout::Diff;
use rename::Renames;
use serde::Serialize;
use std::fmt;

/// The class of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Class {
    /// A struct, enumeration, function, function type or name that was not there.
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

impl Serialize for Class {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
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
    /// A function that is declared, which stands in no slot.
    Prototype,
    /// A typedef.
    Alias,
    /// A variable that is declared, which others have.
    Variable,
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
    /// How it was declared, as C spells it, where it is a field or a type.
    pub was_c: Option<String>,
    /// How it is declared, as C spells it.
    pub now_c: Option<String>,
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
            was_c: None,
            now_c: None,
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
///
/// ```
/// use xla_ffi_abi::declared::Edition;
/// use xla_ffi_abi::diff::{changes, differences, distance};
///
/// let [r0, r10] = ["r0", "r10"].map(|name| Edition::find(name).unwrap().declared());
/// let changed = changes(&r0, &r10);
/// assert!(changed.iter().any(|change| change.path() == "XLA_FFI_CallFrame.future"));
/// assert!(distance(&changed) > 0);
/// assert!(differences(&r10, &r10).is_empty());
/// ```
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
    diff.prototypes();
    diff.variables();
    diff.links();
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
        change.effect = meaning::effect_of(change);
    }
    place::judge(&renamed, new, &mut changes);
    spell(&renamed, new, &mut changes);
    changes.sort_by_key(|change| change.follows);
    changes
}

/// Declares in C what changed as a type.
fn spell(old: &Abi, new: &Abi, changes: &mut [Change]) {
    let declared = |abi: &Abi, change: &Change, member: &str| match change.subject {
        Subject::Field | Subject::Slot => spelling::field(abi, &change.owner, member),
        Subject::Function => {
            let ty = abi.functions.get(&change.owner)?;
            Some(spelling::function_type(ty, &change.owner))
        }
        Subject::Prototype => {
            let ty = abi.prototypes.get(&change.owner)?;
            Some(spelling::prototype(ty, &change.owner))
        }
        Subject::Variable => {
            let ty = abi.variables.get(&change.owner)?;
            Some(spelling::declaration(ty, &change.owner))
        }
        Subject::Alias => {
            let ty = abi.aliases.get(&change.owner)?;
            Some(spelling::alias(ty, &change.owner))
        }
        _ => None,
    };
    let renamed: Vec<Change> = changes
        .iter()
        .filter(|change| change.class == Class::Renamed)
        .cloned()
        .collect();
    for change in changes
        .iter_mut()
        .filter(|change| change.class != Class::Moved)
    {
        let member = change.member.clone().unwrap_or_default();
        let before = renamed
            .iter()
            .find(|other| other.owner == change.owner && other.member == change.member)
            .and_then(|other| other.was.clone());
        change.was_c = declared(old, change, before.as_deref().unwrap_or(&member));
        change.now_c = declared(new, change, &member);
    }
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
