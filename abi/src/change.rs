//! A change between two headers and its meaning for a handler that was built with one of them.

use crate::model::Field;
use serde::Serialize;
use std::fmt;

/// The class of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Class {
    /// A new struct, enumeration, function, function type or name.
    Added,
    /// A new field after all others.
    AddedAtEnd,
    /// A new field between others.
    Inserted,
    /// A field whose offset changed.
    Moved,
    /// A different size.
    Resized,
    /// A different type of the same size.
    Retyped,
    /// A different name for the same thing.
    Renamed,
    /// A removed declaration or field.
    Removed,
    /// A new enumerator.
    EnumValueAdded,
    /// An enumerator whose value changed.
    EnumValueChanged,
    /// An enumerator whose name changed.
    EnumValueRenamed,
    /// A removed enumerator.
    EnumValueRemoved,
    /// `STRUCT_SIZE` ends with a different field.
    SizeMacroChanged,
    /// A macro or a free enumerator whose value changed.
    ConstantChanged,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `AddedAtEnd` becomes "added at end".
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

/// The kind of thing that a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A whole struct.
    Struct,
    /// A field of a struct.
    Field,
    /// A function pointer in a table.
    Slot,
    /// A type that only the host defines.
    Opaque,
    /// An enumeration or an enumerator.
    Enum,
    /// A function type.
    Function,
    /// A declared function that is not in a slot.
    Prototype,
    /// A typedef.
    Alias,
    /// A declared variable that another library defines.
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

/// A change between two headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The class of the change.
    pub class: Class,
    /// The kind of thing that changed.
    pub subject: Subject,
    /// The struct, enumeration or other thing, by its newer name.
    pub owner: String,
    /// The field or enumerator in the owner.
    pub member: Option<String>,
    /// The declaration before the change.
    pub was: Option<String>,
    /// The declaration after the change.
    pub now: Option<String>,
    /// The declaration before the change in C, for fields and types.
    pub was_c: Option<String>,
    /// The declaration after the change in C, for fields and types.
    pub now_c: Option<String>,
    /// The line of the declaration in the header (the newer of two); `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Whether the change only follows from another change in the list.
    pub follows: bool,
    /// The effect if handler and runtime are on different sides of the change.
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

    /// Returns the path, such as `XLA_FFI_Buffer.rank`, or only the owner.
    #[must_use]
    pub fn path(&self) -> String {
        match &self.member {
            Some(member) => format!("{}.{member}", self.owner),
            None => self.owner.clone(),
        }
    }
}

impl Change {
    /// Describes the change and calls the changed thing `name`.
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

/// The severity of a change for one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing happens at run time.
    #[default]
    None,
    /// Something is missing; handlers that do not use it work.
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

/// The meaning of a change for one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Meaning {
    /// The severity.
    pub severity: Severity,
    /// The reason, in one sentence.
    pub why: String,
}

/// The meaning of a change for both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// A handler built before the change in a runtime built after it.
    pub old_on_new: Meaning,
    /// A handler built after the change in a runtime built before it.
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
    /// Returns the higher severity of the two directions.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.old_on_new.severity.max(self.new_on_old.severity)
    }
}
