//! What a change means for a handler that was built on one side of it and is loaded on the other.
//!
//! The answer depends on who fills a struct and who reads it, so every struct has a role.

pub use crate::change::{Effect, Meaning, Severity};

use crate::change::{Change, Class, Subject};
use xla_ffi_sys::Revision;

/// A field in bytes that were padding before: nothing else moves.
pub(crate) fn in_padding(owner: &str) -> Effect {
    use Severity::{Breaks, Lacks, None};
    const LEAVES: &str = "it does not touch bytes that it takes for padding";
    match role(owner) {
        Role::Table | Role::Frame | Role::Part => Effect::new(
            (None, LEAVES),
            (
                Breaks,
                "it reads padding: nothing else moved, but the older runtime never filled these bytes",
            ),
        ),
        Role::Request => Effect::new(
            (
                Breaks,
                "the newer runtime reads padding: nothing else moved, but the handler never filled \
                 these bytes",
            ),
            (None, "the older runtime does not read padding"),
        ),
        Role::Answer => Effect::new(
            (Lacks, "the runtime reads an answer that was never given"),
            (None, "it writes padding, which nobody reads"),
        ),
    }
}

/// A struct grew that `holder` has by value, before the field `next`.
pub(crate) fn pushed(holder: &str, next: &str) -> Effect {
    use Severity::{Breaks, Lacks};
    let place = format!("it lies by value in {holder}, before `{next}`");
    match role(holder) {
        Role::Request => Effect::new(
            (
                Lacks,
                &format!(
                    "{place}: the newer runtime refuses the smaller struct_size, or has to tell the \
                     forms apart by it; one that does not reads other bytes as `{next}`"
                ),
            ),
            (
                Breaks,
                &format!("{place}: the older runtime reads the new bytes as `{next}`"),
            ),
        ),
        _ => Effect::both(
            Breaks,
            &format!("{place}: the two sides look for `{next}` at different bytes"),
        ),
    }
}

/// A struct grew that stands last in `holder`, which grows with it.
pub(crate) fn grown(holder: &str) -> Effect {
    let mut effect = added_at_end(role(holder));
    for meaning in [&mut effect.old_on_new, &mut effect.new_on_old] {
        meaning.why = format!("it stands last in {holder}: {}", meaning.why);
    }
    effect
}

/// Who fills a struct, and who reads it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The runtime's functions.
    Table,
    /// The runtime fills it, the handler reads it.
    Frame,
    /// The handler fills it and hands it to a function of the table.
    Request,
    /// The runtime makes room, the handler writes.
    Answer,
    /// A part of others.
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
        // That of another extension: its functions stand in it.
        _ if name.ends_with("_Extension") => Role::Table,
        _ => Role::Part,
    }
}

/// What `change` means.
pub(crate) fn effect_of(change: &Change) -> Effect {
    use Severity::{Breaks, Lacks, None};
    let role = role(&change.owner);
    match (change.class, change.subject) {
        (Class::Renamed, Subject::Prototype | Subject::Variable) => Effect::both(
            Lacks,
            "a library that is linked to the one symbol does not load where there is only the other",
        ),
        (Class::Renamed | Class::EnumValueRenamed, _) => Effect::both(
            None,
            "names do not exist at run time; sources have to be edited before they compile again",
        ),
        (Class::AddedAtEnd, _) => added_at_end(role),
        (Class::Inserted, _) => shifted(role, "every later field stands elsewhere"),
        (Class::Moved, _) => shifted(role, "the two sides look for it at different bytes"),
        (Class::Resized, Subject::Field | Subject::Slot) => shifted(
            role,
            "one side reads or writes more bytes than the other, and later fields may stand elsewhere",
        ),
        (Class::Resized, _) => Effect::both(
            Breaks,
            "whoever holds it by value, or in an array, finds the next thing at another byte",
        ),
        (Class::Retyped, subject) => retyped(change, subject),
        (Class::Removed, Subject::Field | Subject::Slot) => removed(role),
        (Class::Removed, Subject::Struct) => Effect::new(
            (
                Lacks,
                "what it was passed to is gone or takes another struct",
            ),
            (None, "it does not use the struct"),
        ),
        (Class::Added, Subject::Prototype | Subject::Variable) => Effect::new(
            (None, "it is linked to what it knows"),
            (
                Lacks,
                "where it is linked to it, the library does not load into a runtime that has none; look it up by name instead",
            ),
        ),
        (Class::Removed, Subject::Prototype | Subject::Variable) => Effect::new(
            (
                Lacks,
                "where it is linked to it, the library does not load into a runtime that has none",
            ),
            (None, "it is not linked to it"),
        ),
        (Class::Removed, Subject::Constant) if change.owner.contains("STRUCT_SIZE") => {
            Effect::both(
                None,
                "a number that is gone matters only when sources are compiled",
            )
        }
        (Class::Removed, _) => Effect::both(
            None,
            "a declaration that is gone matters only when sources are compiled",
        ),
        (Class::Added, _) => Effect::new(
            (None, "it does not use it"),
            (Lacks, "what takes it is not there in the older runtime"),
        ),
        (Class::EnumValueAdded, _) => Effect::new(
            (
                Lacks,
                "it may be sent a value that it does not know and has to refuse it, not guess",
            ),
            (Lacks, "a value that it sends is unknown to the runtime"),
        ),
        (Class::EnumValueChanged, _) => Effect::both(
            Breaks,
            "the two sides mean different things by the same number",
        ),
        (Class::EnumValueRemoved, _) => Effect::new(
            (Lacks, "a value that it sends is no longer known"),
            (
                Lacks,
                "it may be sent a value that it does not know and has to refuse it, not guess",
            ),
        ),
        (Class::SizeMacroChanged, _) => size_macro(role),
        (Class::ConstantChanged, _) if change.owner.starts_with("XLA_FFI_API_M") => version(change),
        (Class::ConstantChanged, _) => Effect::both(
            Breaks,
            "the two sides disagree about a number that is compiled into both",
        ),
    }
}

/// Another version of the main header; it may be the lower one.
fn version(change: &Change) -> Effect {
    let number = |text: &Option<String>| text.as_deref()?.parse::<i64>().ok();
    let lower = (
        Severity::None,
        "runtimes accept older versions down to their minimum, which rises about a year behind",
    );
    let higher = (
        Severity::Lacks,
        "a handler that answers the newer version is refused when it is registered; answer the \
         runtime's version instead",
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
            (
                None,
                "it calls the functions that it knows, which stand where they stood",
            ),
            (
                Breaks,
                "the function is not there: calling it jumps to whatever lies behind the table; ask \
                 for the table's length first",
            ),
        ),
        Role::Frame => Effect::new(
            (None, "it does not read so far"),
            (
                Breaks,
                "it reads behind what the runtime filled; ask struct_size first, or the revision \
                 where struct_size does not count the field",
            ),
        ),
        Role::Request => Effect::new(
            (
                Lacks,
                "it hands over fewer bytes: a runtime that asks for the larger struct_size refuses \
                 the call, one that does not check reads behind them",
            ),
            (
                None,
                "runtimes accept a larger struct_size and leave the field alone",
            ),
        ),
        Role::Answer => Effect::new(
            (None, "the field keeps what the runtime put there"),
            (
                Breaks,
                "it writes behind the runtime's struct and overwrites the runtime's memory",
            ),
        ),
        Role::Part => Effect::both(
            Breaks,
            "what holds the struct by value has its later fields elsewhere",
        ),
    }
}

fn shifted(role: Role, why: &str) -> Effect {
    let told = match role {
        Role::Table => {
            "a call through the old position runs another function with the wrong arguments"
        }
        Role::Frame => "the handler takes other bytes for the field",
        Role::Request => {
            "the runtime takes other bytes for the argument, or refuses the call for its size"
        }
        Role::Answer => {
            "the runtime takes other bytes for the answer, or its memory is overwritten"
        }
        Role::Part => "whoever reads it takes other bytes for the field",
    };
    Effect::both(Severity::Breaks, &format!("{why}: {told}"))
}

fn removed(role: Role) -> Effect {
    use Severity::{Breaks, Lacks};
    match role {
        Role::Table => Effect::both(
            Breaks,
            "a call to the function runs whatever stands there on the other side",
        ),
        Role::Request => Effect::new(
            (
                Lacks,
                "what it puts there is taken for another field or not read",
            ),
            (
                Breaks,
                "the runtime reads an argument that was never written",
            ),
        ),
        Role::Frame | Role::Part => Effect::new(
            (Breaks, "it reads a field that nobody fills"),
            (Lacks, "it does not read the field"),
        ),
        Role::Answer => Effect::new(
            (Breaks, "it writes where the runtime keeps other things"),
            (Lacks, "the runtime reads an answer that was never given"),
        ),
    }
}

/// A type by what lies in memory alone.
fn plain(ty: &Option<String>) -> String {
    let mut ty = ty.as_deref().unwrap_or_default().to_owned();
    for (word, instead) in [
        ("*const ", "*"),
        ("*mut ", "*"),
        ("const ", ""),
        ("volatile ", ""),
    ] {
        ty = ty.replace(word, instead);
    }
    let mut element = ty.as_str();
    while let Some(one) = element
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix("; 1]"))
    {
        element = one;
    }
    element.to_owned()
}

fn retyped(change: &Change, subject: Subject) -> Effect {
    if plain(&change.was) == plain(&change.now) {
        return Effect::both(
            Severity::None,
            "the same bytes: const and volatile are promises to the compiler, which bind those who keep them, and an \
             array of one is its element",
        );
    }
    match subject {
        Subject::Slot | Subject::Function | Subject::Prototype => Effect::both(
            Severity::Breaks,
            "the function is called with arguments, or for a result, that it does not have",
        ),
        Subject::Variable => Effect::both(
            Severity::Breaks,
            "the two sides read and write other bytes of the variable, or take them for something else",
        ),
        Subject::Struct => Effect::both(
            Severity::Breaks,
            "a union is passed and returned otherwise than a struct, and what a base has lies before the fields",
        ),
        Subject::Enum => Effect::both(
            Severity::Lacks,
            "its values are the same bytes; a number that is none of them is taken with another sign",
        ),
        Subject::Alias => Effect::both(
            Severity::Breaks,
            "every field and argument of this type is meant differently",
        ),
        _ => Effect::both(
            Severity::Breaks,
            "the same bytes are taken for something else: a sign, a scale or a pointer's target",
        ),
    }
}

fn size_macro(role: Role) -> Effect {
    use Severity::{Lacks, None};
    match role {
        Role::Request => Effect::new(
            (
                Lacks,
                "where the number rose, the runtime refuses the smaller struct_size that the handler \
                 states; where it fell, nothing happens",
            ),
            (None, "runtimes accept a larger struct_size"),
        ),
        Role::Table | Role::Frame | Role::Answer => Effect::both(
            Lacks,
            "struct_size tells the two sides different lengths: a handler that asks it may refuse \
             what is there, or read what is not",
        ),
        Role::Part => Effect::both(
            Lacks,
            "the two sides state different lengths for the same struct",
        ),
    }
}

/// What running handlers against real runtimes has shown beyond what layouts tell, between two
/// revisions: the struct that it is about, the revision that brought it, the fact.
const FACTS: &[(&str, Revision, &str)] = &[
    (
        "XLA_FFI_Metadata_Extension",
        Revision::R1,
        "runtimes of r0 make no metadata call; those of version 0.1 make it with api NULL, and only to the execute handler",
    ),
    (
        "XLA_FFI_CallFrame",
        Revision::R2,
        "`future` lies behind struct_size: on r0 and r1 those bytes are not the handler's",
    ),
    (
        "XLA_FFI_Future_Create_Args",
        Revision::R2,
        "the runtime checks for 16 bytes and writes `future` behind them: hand over 24",
    ),
    (
        "XLA_FFI_Api",
        Revision::R3,
        "ThreadPool_NumThreads came before the future slots without a new version: a handler built on r2 that makes a future calls NumThreads on r3",
    ),
    (
        "XLA_FFI_Api",
        Revision::R5,
        "before r5 struct_size says 88 whatever the table's length",
    ),
    (
        "XLA_FFI_Metadata",
        Revision::R6,
        "writing `state_type_id` on r1 to r5 overwrites the runtime's stack; struct_size says 36 everywhere",
    ),
    (
        "XLA_FFI_Type_Register_Args",
        Revision::R7,
        "runtimes from 0.2 read `type_info` whatever struct_size says: always pass a real one",
    ),
    (
        "XLA_FFI_State_Set_Args",
        Revision::R7,
        "version 0.1 wants the form with deleter, 0.2 the plain one of 40 bytes; the wrong one ranges from an error to a crash",
    ),
    (
        "XLA_FFI_State_Set_Args",
        Revision::R8,
        "version 0.3 and later want `stage` before `type_id`; handlers built with upstream's headers for 0.1 are accepted by jaxlib 0.10.2 to 0.12.0 and crash them",
    ),
    (
        "XLA_FFI_State_Get_Args",
        Revision::R8,
        "version 0.3 and later want `stage` before `type_id`",
    ),
    (
        "XLA_FFI_Handler_Register_Args",
        Revision::R9,
        "pass the 84-byte form unless a record stage is given: 0.9.1 takes the longer one and silently loses `traits`",
    ),
    (
        "XLA_FFI_Error_GetDetails_Args",
        Revision::R9,
        "runtimes from 0.4 accept the 32-byte form too; older ones fill only `message` of the longer one",
    ),
    (
        "XLA_FFI_Api",
        Revision::R10,
        "CustomOptions_Get is there when struct_size is at least 208",
    ),
];

/// The facts that hold between two revisions, oldest first.
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
