//! A change between two ABI headers, and its effect on handlers that were built with one of them.

use crate::model::Field;
use serde::Serialize;
use std::fmt;

/// The class of a change, which states how a declaration or field changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Class {
    /// A struct, enumeration, function, function type or name was added.
    Added,
    /// A field was added after all existing fields.
    AddedAtEnd,
    /// A field was added between existing fields.
    Inserted,
    /// The offset of a field changed.
    Moved,
    /// The size of a struct, field or enumeration changed.
    Resized,
    /// The type of a declaration changed, but not its size.
    Retyped,
    /// The name of a declaration or field changed, but nothing else.
    Renamed,
    /// A declaration or field was removed.
    Removed,
    /// An enumerator was added.
    EnumValueAdded,
    /// The value of an enumerator changed.
    EnumValueChanged,
    /// The name of an enumerator changed, but not its value.
    EnumValueRenamed,
    /// An enumerator was removed.
    EnumValueRemoved,
    /// The constant `STRUCT_SIZE` of a struct includes a different last field than before.
    SizeMacroChanged,
    /// The value of a macro changed, or of an enumerator outside a named enumeration.
    ConstantChanged,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Adds blanks before capital letters, so that `AddedAtEnd` becomes "added at end".
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

/// The kind of declaration that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A struct as a whole.
    Struct,
    /// A field of a struct, other than a function pointer.
    Field,
    /// A function pointer in a struct, such as the function table.
    Slot,
    /// A type that is declared but not defined in the header, because only the runtime knows its layout.
    Opaque,
    /// An enumeration or an enumerator.
    Enum,
    /// The type of a function, as a typedef.
    Function,
    /// A function that is declared for linking.
    Prototype,
    /// A typedef.
    Alias,
    /// A variable that is declared for linking.
    Variable,
    /// A constant: a macro, or an enumerator outside a named enumeration.
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

/// A change of one declaration or field between two headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The class of the change.
    pub class: Class,
    /// The kind of declaration that changed.
    pub subject: Subject,
    /// The name of the changed declaration, or of the declaration that contains the changed field or enumerator. The
    /// newer header's name is used.
    pub owner: String,
    /// The changed field or enumerator; `None` if the whole declaration changed.
    pub member: Option<String>,
    /// The old type, offset or value, in the model's notation.
    pub was: Option<String>,
    /// The new type, offset or value, in the model's notation.
    pub now: Option<String>,
    /// The old declaration as C code, for fields and types.
    pub was_c: Option<String>,
    /// The new declaration as C code, for fields and types.
    pub now_c: Option<String>,
    /// The line of the declaration in the newer header; `None` if the line is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Whether the change is a consequence of a different change between the same headers.
    pub follows: bool,
    /// The effect at run time if the handler and the runtime were built with different headers.
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

    /// Returns the full name of the changed item, such as `XLA_FFI_Buffer.rank` or `XLA_FFI_Buffer`.
    #[must_use]
    pub fn path(&self) -> String {
        match &self.member {
            Some(member) => format!("{}.{member}", self.owner),
            None => self.owner.clone(),
        }
    }
}

impl Change {
    /// Describes the change in a sentence, in which `name` is the name of the changed item.
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

/// The severity of a change for one combination of a handler's header and a runtime's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The change has no effect at run time.
    #[default]
    None,
    /// The handler or the runtime lacks a field or function. Handlers that do not use the field or function work.
    Lacks,
    /// The handler and the runtime use different bytes for the same data, or the handler calls a wrong function.
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

/// The meaning of a change for one combination of a handler's header and a runtime's header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Meaning {
    /// The severity of the change.
    pub severity: Severity,
    /// The reason for the severity, in one sentence.
    pub why: String,
}

/// The meaning of a change for both combinations of an older and a newer header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// The meaning if the handler was built before the change and the runtime after it.
    pub old_on_new: Meaning,
    /// The meaning if the handler was built after the change and the runtime before it.
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
    /// Returns the severity of the change in the combination in which it is more severe.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.old_on_new.severity.max(self.new_on_old.severity)
    }
}
