//! Finds changes of declarations other than structs: enumerations, function types, typedefs and constants.

use super::layout::Diff;
use crate::change::{Change, Class, Subject};
use crate::model::{Abi, Enum, Field};
use std::collections::{BTreeMap, BTreeSet};

impl Diff<'_> {
    pub(super) fn enums(&mut self) {
        let (old, new) = (self.old, self.new);
        for (name, values) in &old.enums {
            match new.enums.get(name) {
                Some(other) => self.enumerators(name, values, other),
                None => self.push(
                    Change::new(Class::Removed, Subject::Enum, name)
                        .was(format!("{} values", values.values.len())),
                ),
            }
        }
        for (name, values) in &new.enums {
            if !old.enums.contains_key(name) {
                self.push(
                    Change::new(Class::Added, Subject::Enum, name)
                        .now(format!("{} values", values.values.len())),
                );
            }
        }
    }

    fn enumerators(&mut self, name: &str, old: &Enum, new: &Enum) {
        if old.size != new.size {
            self.push(
                Change::new(Class::Resized, Subject::Enum, name)
                    .was(format!("{} bytes", old.size))
                    .now(format!("{} bytes", new.size)),
            );
        } else if old.integer() != new.integer() {
            // An enumeration becomes signed if a negative value is added, and unsigned if its last negative value is
            // removed.
            let follows = old.signed == new.signed && old.values != new.values;
            self.push(
                Change::new(Class::Retyped, Subject::Enum, name)
                    .was(old.integer())
                    .now(new.integer())
                    .follows(follows),
            );
        }
        let mut taken = BTreeSet::new();
        for (value_name, value) in &old.values {
            if let Some(other) = new.values.get(value_name) {
                if other != value {
                    self.push(
                        Change::new(Class::EnumValueChanged, Subject::Enum, name)
                            .member(value_name)
                            .was(value.to_string())
                            .now(other.to_string()),
                    );
                }
                continue;
            }
            let renamed = new.values.iter().find(|(other_name, other)| {
                *other == value
                    && !old.values.contains_key(*other_name)
                    && !taken.contains(*other_name)
            });
            match renamed {
                Some((other_name, _)) => {
                    taken.insert(other_name);
                    self.push(
                        Change::new(Class::EnumValueRenamed, Subject::Enum, name)
                            .member(other_name)
                            .was(value_name.as_str())
                            .now(other_name.as_str()),
                    );
                }
                None => self.push(
                    Change::new(Class::EnumValueRemoved, Subject::Enum, name)
                        .member(value_name)
                        .was(value.to_string()),
                ),
            }
        }
        for (value_name, value) in &new.values {
            if !old.values.contains_key(value_name) && !taken.contains(value_name) {
                self.push(
                    Change::new(Class::EnumValueAdded, Subject::Enum, name)
                        .member(value_name)
                        .now(value.to_string()),
                );
            }
        }
    }

    pub(super) fn opaque(&mut self) {
        let (old, new) = (self.old, self.new);
        for name in old.opaque.difference(&new.opaque) {
            // If the newer header defines an opaque type, the change is reported as an added struct.
            let completed = new.structs.contains_key(name);
            self.push(Change::new(Class::Removed, Subject::Opaque, name).follows(completed));
        }
        for name in new.opaque.difference(&old.opaque) {
            let emptied = old.structs.contains_key(name);
            self.push(Change::new(Class::Added, Subject::Opaque, name).follows(emptied));
        }
    }

    /// Adds the differences between two maps from names to types or numbers.
    fn pairs<T: PartialEq + ToString>(
        &mut self,
        (subject, changed): (Subject, Class),
        [old, new]: [&BTreeMap<String, T>; 2],
        follows: impl Fn(&[Change], Class, &String) -> bool,
    ) {
        let added = new.keys().filter(|name| !old.contains_key(*name));
        for name in old.keys().chain(added) {
            let (was, now) = (old.get(name), new.get(name));
            let class = match (was, now) {
                _ if was == now => continue,
                (Some(_), Some(_)) => changed,
                (Some(_), None) => Class::Removed,
                (None, _) => Class::Added,
            };
            let mut change = Change::new(class, subject, name);
            change.was = was.map(ToString::to_string);
            change.now = now.map(ToString::to_string);
            change.follows = follows(&self.changes, class, name);
            self.push(change);
        }
    }

    /// Adds the changes of function types, functions, variables, typedefs and constants.
    pub(super) fn declarations(&mut self) {
        let (old, new) = (self.old, self.new);
        let is_slot = |abi: &Abi, name: &str| {
            let mut structs = abi.structs.values();
            structs.any(|layout| layout.field(name).is_some_and(Field::is_function))
        };
        // The function type of a slot changes with the slot, so its change is a consequence of the slot's change.
        let slot_too = |changes: &[Change], class: Class, name: &String| match class {
            Class::Retyped => changes.iter().any(|change| {
                (change.class, change.subject) == (Class::Retyped, Subject::Slot)
                    && change.member.as_ref() == Some(name)
            }),
            Class::Removed => is_slot(old, name) && !is_slot(new, name),
            _ => is_slot(new, name) && !is_slot(old, name),
        };
        let types = (Subject::Function, Class::Retyped);
        self.pairs(types, [&old.functions, &new.functions], slot_too);
        let symbols = [
            (Subject::Prototype, [&old.prototypes, &new.prototypes]),
            (Subject::Variable, [&old.variables, &new.variables]),
        ];
        for (subject, both) in symbols {
            self.pairs((subject, Class::Retyped), both, |_, _, _| false);
        }
        self.links();
        // A typedef is removed if its target is renamed to its name, and added if it is the old name of a renamed type.
        let renamed = |changes: &[Change], class: Class, name: &String| {
            let mut renames = changes
                .iter()
                .filter(|change| change.class == Class::Renamed);
            renames.any(|change| match class {
                Class::Removed => change.owner == *name,
                Class::Added => change.was.as_ref() == Some(name),
                _ => false,
            })
        };
        let typedefs = (Subject::Alias, Class::Retyped);
        self.pairs(typedefs, [&old.aliases, &new.aliases], renamed);
        let numbers = (Subject::Constant, Class::ConstantChanged);
        self.pairs(numbers, [&old.constants, &new.constants], |_, _, _| false);
    }

    /// Adds changed linker symbols of functions and variables that both headers declare.
    fn links(&mut self) {
        let (old, new) = (self.old, self.new);
        let kinds = [
            (Subject::Prototype, &old.prototypes, &new.prototypes),
            (Subject::Variable, &old.variables, &new.variables),
        ];
        for (subject, was, is) in kinds {
            for name in was.keys().filter(|name| is.contains_key(*name)) {
                let was = old.links.get(name).unwrap_or(name);
                let is = new.links.get(name).unwrap_or(name);
                if was != is {
                    self.push(
                        Change::new(Class::Renamed, subject, name)
                            .was(format!("the symbol {was}"))
                            .now(format!("the symbol {is}")),
                    );
                }
            }
        }
    }
}
