//! The effect of a change if the handler and the runtime were built with different headers.
//!
//! The effect depends on whether the handler or the runtime fills a struct, so every struct has a role.

pub use crate::change::{Effect, Meaning, Severity};

use crate::change::{Change, Class, Subject};
use xla_ffi_sys::Revision;

/// Returns the effect of a new field in bytes that a side with the older header does not fill. `what` names the bytes,
/// such as padding.
pub(crate) fn unfilled(owner: &str, what: &str) -> Effect {
    use Severity::{Breaks, Lacks, None};
    let leaves = format!("the handler does not access {what}");
    match role(owner) {
        Role::Table | Role::Frame | Role::Part => Effect::new(
            (None, &leaves),
            (
                Breaks,
                &format!("the handler reads {what}, which the older runtime does not fill"),
            ),
        ),
        Role::Request => Effect::new(
            (
                Breaks,
                &format!("the newer runtime reads {what}, which the handler does not fill"),
            ),
            (None, &format!("the older runtime does not read {what}")),
        ),
        Role::Answer => Effect::new(
            (
                Lacks,
                "the runtime reads a field that the handler does not write",
            ),
            (
                None,
                &format!("the handler writes {what}, which the runtime does not read"),
            ),
        ),
    }
}

/// Returns the effect of the growth of a struct that the struct `holder` contains by value before the field `next`.
pub(crate) fn pushed(holder: &str, next: &str) -> Effect {
    use Severity::{Breaks, Lacks};
    let place = format!("the struct is by value in {holder}, before `{next}`");
    match role(holder) {
        Role::Request => Effect::new(
            (
                Lacks,
                &format!(
                    "{place}: the newer runtime refuses the smaller struct_size, or reads other bytes as `{next}`"
                ),
            ),
            (
                Breaks,
                &format!("{place}: the older runtime reads the new bytes as `{next}`"),
            ),
        ),
        _ => Effect::both(
            Breaks,
            &format!("{place}: the two sides read `{next}` at different offsets"),
        ),
    }
}

/// Returns the effect of the growth of a struct that is the last field of the struct `holder`, so that `holder` also
/// grows.
pub(crate) fn grown(holder: &str) -> Effect {
    let mut effect = added_at_end(role(holder));
    for meaning in [&mut effect.old_on_new, &mut effect.new_on_old] {
        meaning.why = format!("the struct is last in {holder}: {}", meaning.why);
    }
    effect
}

/// The role of a struct, which states whether the handler or the runtime fills the struct.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The struct contains pointers to functions of the runtime.
    Table,
    /// The runtime fills the struct, and the handler reads it.
    Frame,
    /// The handler fills the struct and passes it to a function of the runtime.
    Request,
    /// The runtime allocates the struct, and the handler fills it.
    Answer,
    /// The struct is used only as a part of other structs.
    Part,
}

fn role(name: &str) -> Role {
    match name {
        "XLA_FFI_Api" | "XLA_FFI_RecordApi" | "XLA_FFI_Collectives_Extension" => Role::Table,
        "XLA_FFI_Metadata" => Role::Answer,
        "XLA_FFI_CallFrame"
        | "XLA_FFI_Args"
        | "XLA_FFI_Rets"
        | "XLA_FFI_Attrs"
        | "XLA_FFI_Buffer"
        | "XLA_FFI_Scalar"
        | "XLA_FFI_Array"
        | "XLA_FFI_Metadata_Extension"
        | "XLA_FFI_Record_Extension"
        | "XLA_FFI_RecordFrame" => Role::Frame,
        "XLA_FFI_TypeInfo" | "XLA_FFI_Handler_Bundle" => Role::Request,
        _ if name.ends_with("_Args") => Role::Request,
        // Structs of unknown extensions contain function pointers.
        _ if name.ends_with("_Extension") => Role::Table,
        _ => Role::Part,
    }
}

/// Returns the effect of a change as far as it does not depend on the layouts of other structs.
pub(crate) fn effect_of(change: &Change) -> Effect {
    use Severity::{Breaks, Lacks, None};
    let role = role(&change.owner);
    match (change.class, change.subject) {
        (Class::Renamed, Subject::Prototype | Subject::Variable) => Effect::both(
            Lacks,
            "a library linked to one name does not load if only the other exists",
        ),
        (Class::Renamed | Class::EnumValueRenamed, _) => Effect::both(
            None,
            "names are not used at run time; sources must be edited to compile",
        ),
        (Class::AddedAtEnd, _) => added_at_end(role),
        (Class::Inserted, _) => shifted(role, "every later field has a different offset"),
        (Class::Moved, _) => shifted(role, "the two sides use different offsets"),
        (Class::Resized, Subject::Field | Subject::Slot) => shifted(
            role,
            "one side accesses more bytes than the other, and later fields may have other offsets",
        ),
        (Class::Resized, _) => {
            Effect::both(Breaks, "fields and elements after it have other offsets")
        }
        (Class::Retyped, subject) => retyped(subject),
        (Class::Removed, Subject::Field | Subject::Slot) => removed(role),
        (Class::Removed, Subject::Struct) => Effect::new(
            (
                Lacks,
                "the function that takes the struct is missing or takes a different struct",
            ),
            (None, "the handler does not use the struct"),
        ),
        (Class::Added, Subject::Prototype | Subject::Variable) => Effect::new(
            (None, "the handler does not use the new symbol"),
            (
                Lacks,
                "a library linked to the symbol does not load in runtimes without it; look the symbol up by name",
            ),
        ),
        (Class::Removed, Subject::Prototype | Subject::Variable) => Effect::new(
            (
                Lacks,
                "a library linked to the symbol does not load in runtimes without it",
            ),
            (None, "the handler does not use the symbol"),
        ),
        (Class::Removed, Subject::Constant) if change.owner.contains("STRUCT_SIZE") => {
            Effect::both(None, "a missing number matters only to compile sources")
        }
        (Class::Removed, _) => Effect::both(
            None,
            "a missing declaration matters only to compile sources",
        ),
        (Class::Added, Subject::Alias | Subject::Function | Subject::Opaque) => {
            Effect::both(None, "a name of a type matters only to compile sources")
        }
        (Class::Added, _) => Effect::new(
            (None, "the handler does not use the declaration"),
            (
                Lacks,
                "the older runtime does not have the functions for it",
            ),
        ),
        (Class::EnumValueAdded, _) => Effect::new(
            (
                Lacks,
                "the handler may receive an unknown value, which it must refuse",
            ),
            (
                Lacks,
                "the runtime does not know a value that the handler sends",
            ),
        ),
        (Class::EnumValueChanged, _) => {
            Effect::both(Breaks, "the number has different meanings on the two sides")
        }
        (Class::EnumValueRemoved, _) => Effect::new(
            (
                Lacks,
                "the runtime no longer knows a value that the handler sends",
            ),
            (
                Lacks,
                "the handler may receive an unknown value, which it must refuse",
            ),
        ),
        (Class::SizeMacroChanged, _) => size_macro(role),
        (Class::ConstantChanged, _) if change.owner.starts_with("XLA_FFI_API_M") => version(change),
        (Class::ConstantChanged, _) => {
            Effect::both(Breaks, "a number that is compiled into both sides differs")
        }
    }
}

/// Returns the effect of a change of the API version that the main header declares.
fn version(change: &Change) -> Effect {
    let number = |text: &Option<String>| text.as_deref()?.parse::<i64>().ok();
    let lower = (
        Severity::None,
        "runtimes accept older versions for about a year",
    );
    let higher = (
        Severity::Lacks,
        "runtimes refuse handlers with newer versions; answer with the runtime's version",
    );
    match number(&change.now) < number(&change.was) {
        true => Effect::new(higher, lower),
        false => Effect::new(lower, higher),
    }
}

fn added_at_end(role: Role) -> Effect {
    use Severity::{Breaks, Lacks, None};
    match role {
        Role::Table => Effect::new(
            (None, "the known functions keep their positions"),
            (
                Breaks,
                "a call to the function reads past the end of the table; check the table's length first",
            ),
        ),
        Role::Frame => Effect::new(
            (None, "the handler does not read the field"),
            (
                Breaks,
                "the handler reads past the end of the runtime's struct; check struct_size or the revision first",
            ),
        ),
        Role::Request => Effect::new(
            (
                Lacks,
                "the runtime refuses the smaller struct_size, or reads past the end of the handler's struct",
            ),
            (
                None,
                "runtimes accept a larger struct_size and ignore the field",
            ),
        ),
        Role::Answer => Effect::new(
            (None, "the field keeps the runtime's value"),
            (
                Breaks,
                "the handler writes past the end of the runtime's struct",
            ),
        ),
        Role::Part => Effect::both(
            Breaks,
            "fields after it in other structs have other offsets",
        ),
    }
}

fn shifted(role: Role, why: &str) -> Effect {
    let result = match role {
        Role::Table => "calls run a wrong function",
        Role::Frame => "the handler reads other bytes as the field",
        Role::Request => "the runtime reads other bytes as the argument, or refuses the size",
        Role::Answer => "the runtime reads other bytes as the answer, or its memory is overwritten",
        Role::Part => "readers use other bytes as the field",
    };
    Effect::both(Severity::Breaks, &format!("{why}: {result}"))
}

fn removed(role: Role) -> Effect {
    use Severity::{Breaks, Lacks};
    match role {
        Role::Table => Effect::both(
            Breaks,
            "calls run a wrong function or jump to an invalid address",
        ),
        Role::Request => Effect::new(
            (
                Lacks,
                "the runtime ignores the value or reads it as a different field",
            ),
            (
                Breaks,
                "the runtime reads an argument that the handler does not write",
            ),
        ),
        Role::Frame | Role::Part => Effect::new(
            (
                Breaks,
                "the handler reads a field that the runtime does not fill",
            ),
            (Lacks, "the handler does not read the field"),
        ),
        Role::Answer => Effect::new(
            (Breaks, "the handler overwrites other memory of the runtime"),
            (
                Lacks,
                "the runtime reads a field that the handler does not write",
            ),
        ),
    }
}

fn retyped(subject: Subject) -> Effect {
    match subject {
        Subject::Slot | Subject::Function | Subject::Prototype => Effect::both(
            Severity::Breaks,
            "the function is called with different arguments or a different return type",
        ),
        Subject::Variable => Effect::both(
            Severity::Breaks,
            "the two sides access the variable as different types",
        ),
        Subject::Struct => Effect::both(
            Severity::Breaks,
            "unions and structs are passed differently, and base classes precede the fields",
        ),
        Subject::Enum => Effect::both(
            Severity::Lacks,
            "known values are equal; unknown values have a different sign",
        ),
        Subject::Alias => Effect::both(
            Severity::Breaks,
            "fields and arguments of this type have a different meaning",
        ),
        _ => Effect::both(
            Severity::Breaks,
            "the same bytes have a different meaning: sign, scale or pointer target",
        ),
    }
}

fn size_macro(role: Role) -> Effect {
    use Severity::{Lacks, None};
    match role {
        Role::Request => Effect::new(
            (
                Lacks,
                "if the number increased, the runtime refuses the handler's smaller struct_size",
            ),
            (None, "runtimes accept a larger struct_size"),
        ),
        Role::Table | Role::Frame | Role::Answer => Effect::both(
            Lacks,
            "struct_size has different meanings: a handler may refuse present fields or read missing ones",
        ),
        Role::Part => Effect::both(Lacks, "the two sides use different lengths of the struct"),
    }
}

/// Facts about runtimes that were measured, because headers do not show them. Each fact has the name of a struct, the
/// first revision and a text.
const FACTS: &[(&str, Revision, &str)] = &[
    (
        "XLA_FFI_Metadata_Extension",
        Revision::R1,
        "r0 makes no metadata call; version 0.1 makes it with a NULL api, and only to the execute handler",
    ),
    (
        "XLA_FFI_CallFrame",
        Revision::R2,
        "struct_size does not include `future`; on r0 and r1, these bytes belong to the runtime",
    ),
    (
        "XLA_FFI_Future_Create_Args",
        Revision::R2,
        "the runtime checks for 16 bytes and writes `future` after them: pass 24",
    ),
    (
        "XLA_FFI_Api",
        Revision::R3,
        "ThreadPool_NumThreads was inserted before the future slots without a new version: a handler built on r2 calls NumThreads on r3 to create a future",
    ),
    (
        "XLA_FFI_Api",
        Revision::R5,
        "before r5, struct_size is always 88",
    ),
    (
        "XLA_FFI_Metadata",
        Revision::R6,
        "writing `state_type_id` on r1 to r5 overwrites the runtime's stack; struct_size is always 36",
    ),
    (
        "XLA_FFI_Type_Register_Args",
        Revision::R7,
        "from 0.2 on, runtimes read `type_info` regardless of struct_size: always pass one",
    ),
    (
        "XLA_FFI_State_Set_Args",
        Revision::R7,
        "version 0.1 requires the layout with a deleter, 0.2 that of 40 bytes; the wrong one leads to an error or a crash",
    ),
    (
        "XLA_FFI_State_Set_Args",
        Revision::R8,
        "from 0.3 on, `stage` precedes `type_id`; jaxlib 0.10.2 to 0.12.0 accept handlers built with XLA's headers for 0.1, which crash",
    ),
    (
        "XLA_FFI_State_Get_Args",
        Revision::R8,
        "from 0.3 on, `stage` precedes `type_id`",
    ),
    (
        "XLA_FFI_Handler_Register_Args",
        Revision::R9,
        "pass the 84-byte layout unless there is a record stage: 0.9.1 accepts the longer one but ignores `traits`",
    ),
    (
        "XLA_FFI_Error_GetDetails_Args",
        Revision::R9,
        "from 0.4 on, runtimes also accept the 32-byte layout; older ones fill only `message` of the longer one",
    ),
    (
        "XLA_FFI_Api",
        Revision::R10,
        "CustomOptions_Get exists if struct_size is at least 208",
    ),
];

/// Returns facts that apply to only one of two revisions, oldest first. Each fact has the name of a struct, the first
/// revision and a text.
#[must_use]
pub fn facts(from: Revision, to: Revision) -> Vec<(&'static str, Revision, &'static str)> {
    let (first, last) = (from.min(to), from.max(to));
    FACTS
        .iter()
        .copied()
        .filter(|(_, revision, _)| first < *revision && *revision <= last)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::Edition;
    use crate::diff::changes;

    #[test]
    fn the_newer_version_is_refused_by_the_older_runtime() {
        let [r9, r10] = ["r9", "r10"].map(|name| Edition::find(name).unwrap().declared());
        for (old, new, severity) in [
            (&r9, &r10, (Severity::None, Severity::Lacks)),
            (&r10, &r9, (Severity::Lacks, Severity::None)),
        ] {
            let changes = changes(old, new);
            let mut versions = changes
                .iter()
                .filter(|change| change.owner == "XLA_FFI_API_MINOR");
            let effect = &versions.next().unwrap().effect;
            assert_eq!(
                (effect.old_on_new.severity, effect.new_on_old.severity),
                severity
            );
        }
    }
}
