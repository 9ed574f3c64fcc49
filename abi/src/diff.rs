//! Finds and classifies the changes between the layouts of two headers.

mod effect;
mod layout;
mod names;
mod rename;

pub use crate::change::{Change, Class, Subject};

use crate::meaning;
use crate::model::Abi;
use crate::spelling;
use layout::Diff;
use rename::Renames;

/// Returns the distance between two headers: a weighted number of changes. A change that follows from a different
/// change has a low weight.
#[must_use]
pub fn distance(changes: &[Change]) -> usize {
    changes
        .iter()
        .map(|change| if change.follows { 1 } else { 100 })
        .sum()
}

/// Returns one line of text per change; the list is empty if `a` and `b` are equal.
#[must_use]
pub fn differences(a: &Abi, b: &Abi) -> Vec<String> {
    if a == b {
        return Vec::new();
    }
    let lines: Vec<String> = changes(a, b).iter().map(ToString::to_string).collect();
    if lines.is_empty() {
        // Every difference of the model should have a class of changes, so this line shows that a class is missing.
        vec!["they differ in a way that has no class".to_owned()]
    } else {
        lines
    }
}

/// Returns all changes from `old` to `new`: first the causes, then the changes that follow from them.
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
    diff.declarations();
    let mut changes = diff.changes;
    follow_typedefs(&mut changes);
    // If every change follows from a different change, the cause is unknown, and all changes count as causes.
    if changes.iter().all(|change| change.follows) {
        for change in &mut changes {
            change.follows = false;
        }
    }
    for change in &mut changes {
        change.effect = meaning::effect_of(change);
    }
    effect::assess(&renamed, new, &mut changes);
    spell(&renamed, new, &mut changes);
    changes.sort_by_key(|change| change.follows);
    changes
}

/// Adds the C code of changed declarations to the changes.
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

/// Marks changes of fields that follow from a change of a typedef.
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
        // The text for a resized field contains its size after its type, as in "u32, 4 bytes".
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
