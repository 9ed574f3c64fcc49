//! Changes of what has no bytes of its own: enumerations, function types, typedefs, numbers.

use super::layout::Diff;
use crate::change::{Change, Class, Subject};
use crate::model::{Abi, Enum, Field};
use std::collections::BTreeSet;

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
            // A negative value that comes or goes gives or takes the sign.
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
            // A type that became complete is an added struct.
            let completed = new.structs.contains_key(name);
            self.push(Change::new(Class::Removed, Subject::Opaque, name).follows(completed));
        }
        for name in new.opaque.difference(&old.opaque) {
            let emptied = old.structs.contains_key(name);
            self.push(Change::new(Class::Added, Subject::Opaque, name).follows(emptied));
        }
    }

    pub(super) fn functions(&mut self) {
        let (old, new) = (self.old, self.new);
        let is_slot = |abi: &Abi, name: &str| {
            abi.structs
                .values()
                .any(|layout| layout.field(name).is_some_and(Field::is_function))
        };
        // A slot and the type of its function change together: the slot's line is the telling one.
        for (name, ty) in &old.functions {
            match new.functions.get(name) {
                Some(other) if other == ty => {}
                Some(other) => {
                    let slot_too = self.changes.iter().any(|change| {
                        change.class == Class::Retyped
                            && change.subject == Subject::Slot
                            && change.member.as_ref() == Some(name)
                    });
                    let change = Change::new(Class::Retyped, Subject::Function, name)
                        .was(ty.as_str())
                        .now(other.as_str())
                        .follows(slot_too);
                    self.push(change);
                }
                None => {
                    let change = Change::new(Class::Removed, Subject::Function, name)
                        .was(ty.as_str())
                        .follows(is_slot(old, name) && !is_slot(new, name));
                    self.push(change);
                }
            }
        }
        for (name, ty) in &new.functions {
            if !old.functions.contains_key(name) {
                let change = Change::new(Class::Added, Subject::Function, name)
                    .now(ty.as_str())
                    .follows(is_slot(new, name) && !is_slot(old, name));
                self.push(change);
            }
        }
    }

    /// Functions that are linked to by their names: another name is another function.
    pub(super) fn prototypes(&mut self) {
        let (old, new) = (self.old, self.new);
        for (name, ty) in &old.prototypes {
            let class = match new.prototypes.get(name) {
                Some(other) if other == ty => continue,
                Some(_) => Class::Retyped,
                None => Class::Removed,
            };
            let mut change = Change::new(class, Subject::Prototype, name).was(ty.as_str());
            change.now = new.prototypes.get(name).cloned();
            self.push(change);
        }
        for (name, ty) in &new.prototypes {
            if !old.prototypes.contains_key(name) {
                self.push(Change::new(Class::Added, Subject::Prototype, name).now(ty.as_str()));
            }
        }
    }

    /// Variables that are linked to by their names.
    pub(super) fn variables(&mut self) {
        let (old, new) = (self.old, self.new);
        for (name, ty) in &old.variables {
            let class = match new.variables.get(name) {
                Some(other) if other == ty => continue,
                Some(_) => Class::Retyped,
                None => Class::Removed,
            };
            let mut change = Change::new(class, Subject::Variable, name).was(ty.as_str());
            change.now = new.variables.get(name).cloned();
            self.push(change);
        }
        for (name, ty) in &new.variables {
            if !old.variables.contains_key(name) {
                self.push(Change::new(Class::Added, Subject::Variable, name).now(ty.as_str()));
            }
        }
    }

    /// The symbols of functions and variables that both have.
    pub(super) fn links(&mut self) {
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

    pub(super) fn aliases(&mut self) {
        let (old, new) = (self.old, self.new);
        for (name, ty) in &old.aliases {
            match new.aliases.get(name) {
                Some(other) if other == ty => {}
                Some(other) => self.push(
                    Change::new(Class::Retyped, Subject::Alias, name)
                        .was(ty.as_str())
                        .now(other.as_str()),
                ),
                None => {
                    // What it named has taken its name.
                    let taken = self
                        .changes
                        .iter()
                        .any(|change| change.class == Class::Renamed && change.owner == *name);
                    self.push(
                        Change::new(Class::Removed, Subject::Alias, name)
                            .was(ty.as_str())
                            .follows(taken),
                    );
                }
            }
        }
        for (name, ty) in &new.aliases {
            if !old.aliases.contains_key(name) {
                // The old name of something renamed.
                let kept = self.changes.iter().any(|change| {
                    change.class == Class::Renamed && change.was.as_ref() == Some(name)
                });
                self.push(
                    Change::new(Class::Added, Subject::Alias, name)
                        .now(ty.as_str())
                        .follows(kept),
                );
            }
        }
    }

    pub(super) fn constants(&mut self) {
        let (old, new) = (self.old, self.new);
        for (name, value) in &old.constants {
            match new.constants.get(name) {
                Some(other) if other == value => {}
                Some(other) => self.push(
                    Change::new(Class::ConstantChanged, Subject::Constant, name)
                        .was(value.to_string())
                        .now(other.to_string()),
                ),
                None => self.push(
                    Change::new(Class::Removed, Subject::Constant, name).was(value.to_string()),
                ),
            }
        }
        for (name, value) in &new.constants {
            if !old.constants.contains_key(name) {
                self.push(
                    Change::new(Class::Added, Subject::Constant, name).now(value.to_string()),
                );
            }
        }
    }
}
