//! The effects of changes that depend on fields next to the changed field, or on structs that contain the changed
//! struct.

use crate::change::{Change, Class, Effect, Severity, Subject};
use crate::meaning;
use crate::model::{Abi, Field, Struct};
use crate::spelling::{array, signature};

/// The largest nesting depth of structs that is examined for effects.
const DEPTH: usize = 8;

pub(super) fn assess(old: &Abi, new: &Abi, changes: &mut [Change]) {
    let both = Both { old, new };
    for change in changes {
        let effect = match (change.class, change.subject) {
            (Class::Inserted | Class::AddedAtEnd, _) => both.added(change),
            (Class::Removed, Subject::Field | Subject::Slot) => both.removed(change),
            (Class::Retyped, _) => both.retyped(change),
            (Class::Added, _) => both.defined(change),
            _ => None,
        };
        change.effect = effect.unwrap_or_else(|| std::mem::take(&mut change.effect));
    }
}

/// The layouts of the older and the newer header.
#[derive(Clone, Copy)]
struct Both<'a> {
    old: &'a Abi,
    new: &'a Abi,
}

impl<'a> Both<'a> {
    fn structs(self, change: &Change) -> Option<(&'a Struct, &'a Struct)> {
        let was = self.old.structs.get(&change.owner)?;
        Some((was, self.new.structs.get(&change.owner)?))
    }

    /// Returns the effect of an added field; `None` if the field moves others. If the struct grew, returns the effect
    /// on structs that contain it by value.
    fn added(self, change: &Change) -> Option<Effect> {
        let (was, is) = self.structs(change)?;
        if was.size != is.size {
            return embedded(self.old, self.new, &change.owner, 0);
        }
        let field = is.field(change.member.as_ref()?)?;
        if !has_same_offsets(was, is) {
            return None;
        }
        let mut holes = was.holes().into_iter();
        let what = match field.end() == field.offset {
            true => Some("bytes after the fields"),
            false => holes
                .any(|(start, end)| start < field.end() && field.offset < end)
                .then_some("padding"),
        };
        if let Some(what) = what {
            return Some(meaning::unfilled(&change.owner, what));
        }
        let (names, _) = overlapping(was, field);
        let why = format!("the field shares the bytes of {names}");
        Some(Effect::both(Severity::None, &why))
    }

    /// Returns the effect of a removed field whose bytes belong to different fields in the newer header.
    fn removed(self, change: &Change) -> Option<Effect> {
        let (was, is) = self.structs(change)?;
        let field = was.field(change.member.as_ref()?)?;
        let (names, are_bits) = overlapping(is, field);
        if names.is_empty() || was.size != is.size || !has_same_offsets(was, is) {
            return None;
        }
        Some(match are_bits || field.is_bits() {
            true => Effect::both(Severity::None, &format!("the same bits are {names}")),
            false => Effect::both(Severity::Breaks, &format!("the bytes belong to {names}")),
        })
    }

    /// Returns the effect if the newer header defines a type that the older header only declares.
    fn defined(self, change: &Change) -> Option<Effect> {
        let is_body = change.subject == Subject::Struct
            || change.now.as_ref().is_some_and(|now| now.contains('{'));
        (self.old.opaque.contains(&change.owner) && is_body).then(|| {
            Effect::new(
                (Severity::None, "the handler does not look into the type"),
                (
                    Severity::Breaks,
                    "the type is opaque: the handler accesses bytes whose layout only the runtime knows",
                ),
            )
        })
    }

    /// Returns the effect of a changed type if values of the old and the new type have the same bytes.
    fn retyped(self, change: &Change) -> Option<Effect> {
        let (was, now) = (change.was.as_ref()?, change.now.as_ref()?);
        // A union and its first member have the same place in a struct, but are passed to functions differently.
        let is_view = |one: &str, other: &str| {
            let is_union = one.trim_start_matches("const ").starts_with("union ");
            is_union && one.contains(&format!(": {other} at 0"))
        };
        let is_field = change.subject == Subject::Field;
        let views = is_field && (is_view(was, now) || is_view(now, was));
        (views || self.has_same_bytes(was, now, 0)).then(|| {
            Effect::both(
                Severity::None,
                "the bytes are equal: qualifiers, names of integers and targets of opaque pointers have no effect at run time",
            )
        })
    }

    fn has_same_bytes(self, was: &str, is: &str, depth: usize) -> bool {
        let (was, is) = (core(was), core(is));
        if was == is || depth > 4 * DEPTH {
            return was == is;
        }
        let same = |was: &str, is: &str| self.has_same_bytes(was, is, depth + 1);
        if let (Some((was, before)), Some((is, after))) = (signature(was), signature(is)) {
            let mut parameters = was.iter().zip(&is);
            return was.len() == is.len()
                && same(before, after)
                && parameters.all(|(was, is)| same(was, is));
        }
        match (target(was), target(is)) {
            (Some(was), Some(is)) => {
                // `void` matches every target. An opaque type matches every type that neither header declares.
                let is_any =
                    |one, other| one == "void" || self.is_opaque(one) && !self.is_known(other);
                return is_any(was, is) || is_any(is, was) || same(was, is);
            }
            // A handle may have the type `uintptr_t` instead of being a pointer to an opaque type.
            (Some(handle), None) => return self.is_opaque(handle) && is == "u64",
            (None, Some(handle)) => return self.is_opaque(handle) && was == "u64",
            (None, None) => {}
        }
        if let (Some((was, many)), Some((is, as_many))) = (array(was), array(is)) {
            return many == as_many && same(was, is);
        }
        match (held(self.old, was), held(self.new, is)) {
            (Some(was), None) => same(&was, is),
            (None, Some(is)) => same(was, &is),
            _ => matches!((was, is), ("char", "i8" | "u8") | ("i8" | "u8", "char")),
        }
    }

    fn is_opaque(self, ty: &str) -> bool {
        self.old.opaque.contains(ty) || self.new.opaque.contains(ty)
    }

    fn is_known(self, ty: &str) -> bool {
        let structs = |abi: &Abi| abi.structs.contains_key(ty);
        self.is_opaque(ty) || structs(self.old) || structs(self.new)
    }
}

/// Returns a type without qualifiers; for an array of one element, the type of the element.
fn core(ty: &str) -> &str {
    let plain = ty
        .trim_start_matches("const ")
        .trim_start_matches("volatile ");
    match array(plain) {
        Some((element, "1")) => core(element),
        _ => plain,
    }
}

/// Returns the target of a pointer. For a function pointer, returns the type itself.
fn target(ty: &str) -> Option<&str> {
    let pointers = ["*mut ", "*const ", "&"];
    let to = pointers.iter().find_map(|word| ty.strip_prefix(word));
    to.map(core).or_else(|| ty.starts_with("fn(").then_some(ty))
}

/// Returns the integer type of an enumeration, or the type of the only field of a struct.
fn held(abi: &Abi, ty: &str) -> Option<String> {
    if let Some(numbers) = abi.enums.get(ty) {
        return Some(numbers.integer());
    }
    let layout = abi.structs.get(ty)?;
    match layout.fields.as_slice() {
        [field] if field.size == layout.size && layout.bases.is_empty() => Some(field.ty.clone()),
        _ => None,
    }
}

/// Returns the names of the fields that share a byte with `field`, and true if all of them are bit-fields.
fn overlapping(layout: &Struct, field: &Field) -> (String, bool) {
    let mut others: Vec<&Field> = layout.fields.iter().collect();
    others.retain(|other| other.offset < field.end() && field.offset < other.end());
    let names: Vec<&str> = others.iter().map(|other| other.name.as_str()).collect();
    (names.join(", "), others.iter().all(|other| other.is_bits()))
}

/// Returns true if every field that is in both structs has the same offset in both.
fn has_same_offsets(was: &Struct, is: &Struct) -> bool {
    was.fields.iter().all(|field| {
        is.field(&field.name)
            .is_none_or(|other| other.offset == field.offset)
    })
}

/// Returns the most severe effect of a struct's growth on structs that contain it by value; `None` if there are none.
fn embedded(old: &Abi, new: &Abi, name: &str, depth: usize) -> Option<Effect> {
    let array = format!("[{name}; ");
    let mut worst = None;
    for (holder, layout) in &old.structs {
        if depth > DEPTH || !new.structs.contains_key(holder) {
            continue;
        }
        let Some(field) = layout
            .fields
            .iter()
            .rev()
            .find(|field| field.ty == name || field.ty.starts_with(&array))
        else {
            continue;
        };
        let next = layout
            .fields
            .iter()
            .filter(|other| other.offset >= field.end())
            .min_by_key(|other| other.offset);
        let effect = match next {
            Some(next) => meaning::pushed(holder, &next.name),
            None => embedded(old, new, holder, depth + 1).unwrap_or_else(|| meaning::grown(holder)),
        };
        if worst
            .as_ref()
            .is_none_or(|known: &Effect| known.severity() < effect.severity())
        {
            worst = Some(effect);
        }
    }
    worst
}
