//! A change from one header to another, and what it means for a handler that was built on one side of it.

use crate::model::Field;
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
        // `AddedAtEnd` is "added at end".
        for (index, letter) in self.rule().name.char_indices() {
            let space = if letter.is_uppercase() && index > 0 {
                " "
            } else {
                ""
            };
            write!(f, "{space}{}", letter.to_ascii_lowercase())?;
        }
        Ok(())
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

impl Subject {
    pub(crate) fn of(field: &Field) -> Self {
        match field.is_function() {
            true => Self::Slot,
            false => Self::Field,
        }
    }
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
    /// The line of the declaration in the header, the newer of two; `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Whether it only follows from another change in the list.
    pub follows: bool,
    /// What it means where handler and runtime differ.
    pub effect: Effect,
}

impl Change {
    pub(crate) fn new(class: Class, subject: Subject, owner: &str) -> Self {
        Self {
            class,
            subject,
            owner: owner.to_owned(),
            member: None,
            was: None,
            now: None,
            was_c: None,
            now_c: None,
            line: None,
            follows: false,
            effect: Effect::default(),
        }
    }

    pub(crate) fn member(mut self, member: &str) -> Self {
        self.member = Some(member.to_owned());
        self
    }

    pub(crate) fn was(mut self, was: impl Into<String>) -> Self {
        self.was = Some(was.into());
        self
    }

    pub(crate) fn now(mut self, now: impl Into<String>) -> Self {
        self.now = Some(now.into());
        self
    }

    pub(crate) fn follows(mut self, follows: bool) -> Self {
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

impl Change {
    /// Describes the change, with `name` for what has changed.
    #[must_use]
    pub fn describe(&self, name: &str) -> String {
        let what = match (&self.was, &self.now) {
            (Some(was), Some(now)) => format!(", was {was}, is {now}"),
            (Some(was), None) => format!(", was {was}"),
            (None, Some(now)) => format!(": {now}"),
            (None, None) => String::new(),
        };
        format!("{}: {name}{what}", self.class)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(&self.path()))
    }
}

/// How bad a change is for one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing happens at run time.
    #[default]
    None,
    /// Something is missing; what does not use it works.
    Lacks,
    /// Wrong bytes are read or written, or the wrong function is called.
    Breaks,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "harmless",
            Self::Lacks => "lacks",
            Self::Breaks => "breaks",
        })
    }
}

impl Serialize for Severity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Meaning {
    /// How bad.
    pub severity: Severity,
    /// Why, in one sentence.
    pub why: String,
}

/// Both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// A handler built before the change, in a runtime from after it.
    pub old_on_new: Meaning,
    /// A handler built after the change, in a runtime from before it.
    pub new_on_old: Meaning,
}

impl Effect {
    pub(crate) fn new(old: (Severity, &str), new: (Severity, &str)) -> Self {
        Self {
            old_on_new: Meaning {
                severity: old.0,
                why: old.1.to_owned(),
            },
            new_on_old: Meaning {
                severity: new.0,
                why: new.1.to_owned(),
            },
        }
    }

    pub(crate) fn both(severity: Severity, why: &str) -> Self {
        Self::new((severity, why), (severity, why))
    }
}

impl Effect {
    /// The worse of the two directions.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.old_on_new.severity.max(self.new_on_old.severity)
    }
}
