//! Finds declarations that have a new name but the same contents.

use crate::change::{Change, Class, Subject};
use crate::model::{Abi, Field, Struct, rename_in};
use std::collections::BTreeMap;

/// Old names of types and functions, each with its new name.
#[derive(Default)]
pub(super) struct Renames {
    types: BTreeMap<String, String>,
    functions: BTreeMap<String, String>,
}

fn only<'a, V>(a: &'a BTreeMap<String, V>, b: &BTreeMap<String, V>) -> Vec<&'a String> {
    a.keys().filter(|name| !b.contains_key(*name)).collect()
}

/// Returns the similarity of two names: the total length in bytes of their common prefix and common suffix.
fn similarity(a: &str, b: &str) -> usize {
    let same = |(x, y): &(u8, u8)| x == y;
    let front = a.bytes().zip(b.bytes()).take_while(same).count();
    let back = a
        .bytes()
        .rev()
        .zip(b.bytes().rev())
        .take_while(same)
        .count();
    front + back
}

impl Renames {
    pub(super) fn find(old: &Abi, new: &Abi) -> Self {
        let mut renames = Self::default();
        renames.by_alias(old, new);
        renames.by_opaque(old, new);
        renames.by_enum(old, new);
        renames.by_slot(old, new);
        renames.by_layout(old, new);
        renames.by_function(old, new);
        renames
    }

    fn is_free(&self, new_name: &str) -> bool {
        !self.types.values().any(|taken| taken == new_name)
    }

    /// Finds renamed types whose old names are typedefs in the new header.
    fn by_alias(&mut self, old: &Abi, new: &Abi) {
        for (alias, target) in &new.aliases {
            let was = old.opaque.contains(alias) || old.structs.contains_key(alias);
            let is = new.opaque.contains(target) || new.structs.contains_key(target);
            let was_there = old.opaque.contains(target) || old.structs.contains_key(target);
            if was && is && !was_there {
                self.types.insert(alias.clone(), target.clone());
            }
        }
    }

    fn by_opaque(&mut self, old: &Abi, new: &Abi) {
        let gone: Vec<_> = old
            .opaque
            .difference(&new.opaque)
            .filter(|name| !self.types.contains_key(*name) && !new.structs.contains_key(*name))
            .collect();
        let come: Vec<_> = new
            .opaque
            .difference(&old.opaque)
            .filter(|name| self.is_free(name) && !old.structs.contains_key(*name))
            .collect();
        if let ([gone], [come]) = (gone.as_slice(), come.as_slice()) {
            self.types.insert((*gone).clone(), (*come).clone());
        }
    }

    fn by_enum(&mut self, old: &Abi, new: &Abi) {
        for gone in only(&old.enums, &new.enums) {
            let come = only(&new.enums, &old.enums)
                .into_iter()
                .filter(|come| self.is_free(come) && new.enums[*come] == old.enums[gone])
                .max_by_key(|come| similarity(gone, come));
            if let Some(come) = come {
                self.types.insert(gone.clone(), come.clone());
            }
        }
    }

    /// Finds renamed argument structs. The functions that take the structs are in the same slot of a table.
    fn by_slot(&mut self, old: &Abi, new: &Abi) {
        for (name, layout) in &old.structs {
            let Some(other) = new.structs.get(name) else {
                continue;
            };
            for (was, is) in renamed_fields(layout, other) {
                if !was.is_function() || !is.is_function() {
                    continue;
                }
                self.functions.insert(was.name.clone(), is.name.clone());
                let words = |ty: &str| -> Vec<String> {
                    ty.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                        .filter(|word| word.starts_with(crate::model::PREFIX))
                        .map(str::to_owned)
                        .collect()
                };
                for (from, to) in words(&was.ty).into_iter().zip(words(&is.ty)) {
                    let is_rename = old.structs.contains_key(&from)
                        && new.structs.contains_key(&to)
                        && !new.structs.contains_key(&from)
                        && !old.structs.contains_key(&to);
                    if is_rename && self.is_free(&to) {
                        self.types.entry(from).or_insert(to);
                    }
                }
            }
        }
    }

    /// Finds renamed structs whose fields are equal in both headers.
    fn by_layout(&mut self, old: &Abi, new: &Abi) {
        for gone in only(&old.structs, &new.structs) {
            if self.types.contains_key(gone) || new.opaque.contains(gone) {
                continue;
            }
            let come = only(&new.structs, &old.structs)
                .into_iter()
                .filter(|come| self.is_free(come) && !old.opaque.contains(*come))
                .filter(|come| {
                    let mut names = self.types.clone();
                    names.insert(gone.clone(), (*come).clone());
                    let was = rename_layout(&old.structs[gone], &names);
                    // Equal fields are the evidence that a struct was renamed, so structs without fields are skipped.
                    let is = &new.structs[*come];
                    let same_kind = (was.is_union, &was.bases) == (is.is_union, &is.bases);
                    !was.fields.is_empty() && was.fields == is.fields && same_kind
                })
                .max_by_key(|come| similarity(gone, come));
            if let Some(come) = come {
                self.types.insert(gone.clone(), come.clone());
            }
        }
    }

    fn by_function(&mut self, old: &Abi, new: &Abi) {
        for gone in only(&old.functions, &new.functions) {
            if self.functions.contains_key(gone) {
                continue;
            }
            let was = rename_in(&old.functions[gone], &self.types);
            let come = only(&new.functions, &old.functions)
                .into_iter()
                .filter(|come| {
                    new.functions[*come] == was
                        && !self.functions.values().any(|taken| taken == *come)
                })
                .max_by_key(|come| similarity(gone, come));
            if let Some(come) = come {
                self.functions.insert(gone.clone(), come.clone());
            }
        }
    }

    pub(super) fn apply(&self, old: &Abi) -> Abi {
        let name = |name: &String| self.types.get(name).unwrap_or(name).clone();
        let types = |all: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            let renamed = all.iter();
            let renamed = renamed.map(|(key, ty)| (key.clone(), rename_in(ty, &self.types)));
            renamed.collect()
        };
        let structs = old.structs.iter();
        let structs = structs.map(|(key, layout)| (name(key), rename_layout(layout, &self.types)));
        let functions = types(&old.functions).into_iter();
        let functions = functions.map(|(key, ty)| match self.functions.get(&key) {
            Some(new) => (new.clone(), ty),
            None => (key, ty),
        });
        let enums = old.enums.iter();
        Abi {
            structs: structs.collect(),
            opaque: old.opaque.iter().map(name).collect(),
            enums: enums.map(|(key, one)| (name(key), one.clone())).collect(),
            functions: functions.collect(),
            prototypes: types(&old.prototypes),
            links: old.links.clone(),
            variables: types(&old.variables),
            aliases: types(&old.aliases),
            constants: old.constants.clone(),
        }
    }

    pub(super) fn changes(&self, old: &Abi, new: &Abi) -> Vec<Change> {
        let mut changes = Vec::new();
        for (was, now) in &self.types {
            let subject = if old.structs.contains_key(was) {
                Subject::Struct
            } else if old.enums.contains_key(was) {
                Subject::Enum
            } else {
                Subject::Opaque
            };
            changes.push(
                Change::new(Class::Renamed, subject, now)
                    .was(was.as_str())
                    .now(now.as_str()),
            );
        }
        for (was, now) in &self.functions {
            // The function type of a slot is renamed with the slot, so its change is a consequence of the slot's
            // change.
            let has_slot = new
                .structs
                .values()
                .any(|layout| layout.field(now).is_some_and(Field::is_function));
            if old.functions.contains_key(was) && new.functions.contains_key(now) {
                changes.push(
                    Change::new(Class::Renamed, Subject::Function, now)
                        .was(was.as_str())
                        .now(now.as_str())
                        .follows(has_slot),
                );
            }
        }
        changes
    }
}

fn rename_layout(layout: &Struct, renames: &BTreeMap<String, String>) -> Struct {
    let mut layout = layout.clone();
    for field in &mut layout.fields {
        field.ty = rename_in(&field.ty, renames);
    }
    for base in &mut layout.bases {
        *base = rename_in(base, renames);
    }
    layout
}

/// Pairs fields that only the old struct has with fields that only the new struct has. Paired fields have the same
/// bytes, or the same type and the same preceding field.
pub(super) fn renamed_fields<'a>(old: &'a Struct, new: &'a Struct) -> Vec<(&'a Field, &'a Field)> {
    let is_pointer = |ty: &str| ty.starts_with(['*', '&']) || ty.starts_with("fn(");
    let before = |layout: &'a Struct, field: &Field| {
        let at = layout.fields.iter().position(|f| f.name == field.name)?;
        layout.fields.get(at.checked_sub(1)?)
    };
    let mut pairs: Vec<(&Field, &Field)> = Vec::new();
    for was in &old.fields {
        if new.field(&was.name).is_some() {
            continue;
        }
        let is = new.fields.iter().find(|is| {
            let free = old.field(&is.name).is_none()
                && !pairs.iter().any(|(_, taken)| taken.name == is.name);
            let same_bytes = is.offset == was.offset && is.size == was.size;
            let alike = is.ty == was.ty || (is_pointer(&is.ty) && is_pointer(&was.ty));
            let same_neighbour = is.ty == was.ty
                && before(old, was).map(|f| &f.name) == before(new, is).map(|f| &f.name);
            free && ((same_bytes && alike) || same_neighbour)
        });
        if let Some(is) = is {
            pairs.push((was, is));
        }
    }
    pairs
}
