//! Finds the changes of structs: changes of fields, slots and sizes.

use super::rename::renamed_fields;
use crate::change::{Change, Class, Subject};
use crate::model::{Abi, Field, Struct};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The layouts of two headers after matching their names, and the changes found so far.
pub(super) struct Diff<'a> {
    pub(super) old: &'a Abi,
    pub(super) new: &'a Abi,
    pub(super) changes: Vec<Change>,
}

impl Diff<'_> {
    pub(super) fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    pub(super) fn structs(&mut self) {
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
                // If a function was added, the addition of its argument struct is a consequence.
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
        let matched: Vec<(&Field, &Field)> = old
            .fields
            .iter()
            .filter_map(|was| Some((was, partner(was)?)))
            .collect();
        for (was, is) in &pairs {
            self.push(
                Change::new(Class::Renamed, Subject::of(is), name)
                    .member(&is.name)
                    .was(was.name.as_str())
                    .now(is.name.as_str()),
            );
        }
        for was in &old.fields {
            if partner(was).is_none() {
                self.push(
                    Change::new(Class::Removed, Subject::of(was), name)
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
            // A new field is not at the end if a field of the old struct had the same bytes.
            let at_end = last_kept.is_none_or(|last| index > last) && is.offset >= old.fields_end();
            let class = if at_end {
                Class::AddedAtEnd
            } else {
                Class::Inserted
            };
            self.push(
                Change::new(class, Subject::of(is), name)
                    .member(&is.name)
                    .now(format!("{} at {}", is.ty, is.offset)),
            );
        }
        self.kind(name, old, new);
        self.types(name, &matched);
        self.moves(name, &matched, (old, new));
        // If the move of a field has no cause, the report of the move also covers the struct's new size.
        let is_told = self.changes[start..]
            .iter()
            .any(|change| change.class == Class::Moved && !change.follows);
        let is_explained = self.changes.len() > start && fields_explain(old, new, &matched);
        if (old.size, old.align) != (new.size, new.align) && !is_told && !is_explained {
            self.push(
                Change::new(Class::Resized, Subject::Struct, name)
                    .was(format!("{} bytes, aligned to {}", old.size, old.align))
                    .now(format!("{} bytes, aligned to {}", new.size, new.align)),
            );
        }
        self.size_macro(name, old, new, &matched);
    }

    /// Records a change if a struct became a union, a union became a struct, or the base classes changed.
    fn kind(&mut self, name: &str, old: &Struct, new: &Struct) {
        let told = |layout: &Struct| {
            let kind = match layout.is_union {
                true => "union",
                false => "struct",
            };
            match layout.bases.as_slice() {
                [] => kind.to_owned(),
                bases => format!("{kind} with base {}", bases.join(", base ")),
            }
        };
        if (old.is_union, &old.bases) != (new.is_union, &new.bases) {
            self.push(
                Change::new(Class::Retyped, Subject::Struct, name)
                    .was(told(old))
                    .now(told(new)),
            );
        }
    }

    fn types(&mut self, name: &str, matched: &[(&Field, &Field)]) {
        for (was, is) in matched {
            let subject = Subject::of(is);
            if was.size != is.size {
                // If a struct or enumeration grows, the growth of fields of this type is a consequence.
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

    fn moves(&mut self, name: &str, matched: &[(&Field, &Field)], (old, new): (&Struct, &Struct)) {
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
            let subject = Subject::of(is);
            let exchanged = matched.iter().any(|(other_was, other_is)| {
                other_was.offset == is.offset && other_is.offset == was.offset
            });
            // If fields were not reordered, a field moves because a field before it was added, was removed or changed
            // its size.
            let has_cause = unmatched(old, matched.iter().map(|(was, _)| *was))
                .any(|gone| gone.offset < was.offset)
                || unmatched(new, matched.iter().map(|(_, is)| *is))
                    .any(|come| come.offset < is.offset)
                || matched
                    .iter()
                    .any(|(a, b)| a.size != b.size && a.offset <= was.offset);
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
}

/// Returns the fields of a struct that are not in `matched`.
fn unmatched<'a>(
    layout: &'a Struct,
    matched: impl Iterator<Item = &'a Field> + Clone,
) -> impl Iterator<Item = &'a Field> {
    let fields = layout.fields.iter();
    fields.filter(move |field| !matched.clone().any(|other| other.name == field.name))
}

/// Returns true if the changes of fields explain the struct's new size and alignment. Otherwise, the packing or the
/// declared alignment of the struct changed.
fn fields_explain(old: &Struct, new: &Struct, matched: &[(&Field, &Field)]) -> bool {
    let moved = matched
        .iter()
        .any(|(was, is)| (was.offset, was.size) != (is.offset, is.size));
    let is_plain = |layout: &Struct| {
        let end = layout.fields_end().checked_next_multiple_of(layout.align);
        end == Some(layout.size)
    };
    let changed = matched.iter().filter(|(was, is)| was.size != is.size);
    let mut gone = unmatched(old, matched.iter().map(|(was, _)| *was))
        .chain(changed.clone().map(|(was, _)| *was));
    let mut come =
        unmatched(new, matched.iter().map(|(_, is)| *is)).chain(changed.map(|(_, is)| *is));
    let same_fields = old.fields.len() == matched.len() && new.fields.len() == matched.len();
    let aligned = match old.align.cmp(&new.align) {
        Ordering::Equal => true,
        Ordering::Less => come.any(|field| field.size >= new.align),
        Ordering::Greater => gone.any(|field| field.size >= old.align),
    };
    (moved || !same_fields) && aligned && is_plain(old) && is_plain(new)
}

/// Returns the indices of a longest increasing subsequence.
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
