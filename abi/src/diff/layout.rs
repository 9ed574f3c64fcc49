//! Changes of structs: fields, slots, sizes.

use super::rename::renamed_fields;
use super::{Change, Class, Subject};
use crate::model::{Abi, Field, Struct};
use std::collections::BTreeSet;

/// Two sets of layouts, names brought together, and the changes found so far.
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
