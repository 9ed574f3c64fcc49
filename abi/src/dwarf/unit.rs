//! Reads the ABI declarations of one compilation unit.

use super::types::{Entry, Given, Target, Types};
use crate::header::Error;
use crate::model::{Abi, PREFIX, function_of};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct UnitReader<'a, 'b> {
    types: Types<'a, 'b>,
    /// The names of a mirror's types, which may include namespaces. `None` if types with upstream's names are read.
    wanted: Option<&'b BTreeSet<String>>,
    /// The namespaces that contain the current entry, outermost first.
    path: Vec<String>,
    /// Whether the unit contains any types, including types that are not part of the ABI.
    has_types: bool,
    abi: Abi,
    /// Types whose name already belongs to a different type of the unit. Each type is in a separate `Abi`.
    others: Vec<Abi>,
}

impl<'a, 'b> UnitReader<'a, 'b> {
    pub(super) fn new(types: Types<'a, 'b>, wanted: Option<&'b BTreeSet<String>>) -> Self {
        Self {
            types,
            wanted,
            has_types: false,
            path: Vec::new(),
            abi: Abi::default(),
            others: Vec::new(),
        }
    }

    /// Records the names that typedefs give to unnamed types.
    pub(super) fn note_typedefs(mut self, given: &mut Given<'a>) -> Result<(), Error> {
        self.each(|reader, entry| reader.types.note_typedef(entry, given))
    }

    /// Returns the layouts of the unit; `None` if the unit has no types. If several types have the same name, each
    /// additional type is in a separate `Abi`.
    pub(super) fn read(mut self) -> Result<Option<Vec<Abi>>, Error> {
        self.each(|reader, entry| {
            reader.has_types |= entry.attr_value(gimli::DW_AT_byte_size)?.is_some();
            match entry.tag() {
                gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type => reader.record(entry),
                gimli::DW_TAG_enumeration_type => reader.enumeration(entry),
                gimli::DW_TAG_typedef => reader.typedef(entry),
                _ => Ok(()),
            }
        })?;
        self.others.insert(0, self.abi);
        Ok(self.has_types.then_some(self.others))
    }

    fn is_wanted(&self, name: &str) -> bool {
        match self.wanted {
            Some(wanted) => wanted.contains(name),
            None => name.starts_with(PREFIX),
        }
    }

    /// Returns the full name in `wanted` that means the current type, which may include some of the type's namespaces;
    /// `None` if no name does.
    fn wanted_name(&self, name: &str) -> Result<Option<String>, Error> {
        if let Some(wanted) = self.wanted {
            for from in 0..self.path.len() {
                let full = format!("{}::{name}", self.path[from..].join("::"));
                self.types.spend(full.len())?;
                if wanted.contains(&full) {
                    return Ok(Some(full));
                }
            }
        }
        match self.is_wanted(name) {
            true => self.types.keep(name).map(Some),
            false => Ok(None),
        }
    }

    /// Calls `visit` for each declaration at file scope or in a namespace.
    fn each(
        &mut self,
        mut visit: impl FnMut(&mut Self, &Entry<'a, 'b>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut entries = self.types.unit.entries();
        // `depth` is the depth of the current entry, and `scope` that of the innermost namespace that contains it.
        let (mut depth, mut scope) = (0, 0);
        while let Some((deeper, entry)) = entries.next_dfs()? {
            depth += deeper;
            scope = scope.min(depth - 1).max(0);
            // The path contains one namespace per level of depth; the unit is level 0.
            self.path.truncate(usize::try_from(scope).unwrap_or(0));
            if depth != scope + 1 {
                continue;
            }
            visit(self, entry)?;
            if entry.tag() == gimli::DW_TAG_namespace && self.wanted.is_some() {
                scope = depth;
                let name = self.types.name(entry)?.unwrap_or_default();
                self.path.push(self.types.keep(&name)?);
            }
        }
        self.path.clear();
        Ok(())
    }

    fn record(&mut self, entry: &Entry<'a, 'b>) -> Result<(), Error> {
        let Some(name) = self.types.tag_name(entry)? else {
            return Ok(());
        };
        let Some(name) = self.wanted_name(&name)? else {
            return Ok(());
        };
        let is_complete = entry.attr_value(gimli::DW_AT_declaration)?.is_none();
        if !is_complete {
            return Ok(());
        }
        let layout = self.types.layout(entry, 0)?;
        if let Some(layout) = put(&mut self.abi.structs, &name, layout) {
            let structs = BTreeMap::from([(name, layout)]);
            self.others.push(Abi {
                structs,
                ..Abi::default()
            });
        }
        Ok(())
    }

    fn enumeration(&mut self, entry: &Entry<'a, 'b>) -> Result<(), Error> {
        let name = self.types.tag_name(entry)?;
        match name {
            Some(name) => {
                if let Some(name) = self.wanted_name(&name)? {
                    let layout = self.types.enum_layout(entry)?;
                    if let Some(layout) = put(&mut self.abi.enums, &name, layout) {
                        let enums = BTreeMap::from([(name, layout)]);
                        self.others.push(Abi {
                            enums,
                            ..Abi::default()
                        });
                    }
                }
            }
            None => {
                for (name, value) in self.types.values(entry.offset())? {
                    if self.is_wanted(&name) {
                        self.abi.constants.entry(name).or_insert(value);
                    }
                }
            }
        }
        Ok(())
    }

    fn typedef(&mut self, entry: &Entry<'a, 'b>) -> Result<(), Error> {
        let Some(name) = self
            .types
            .name(entry)?
            .filter(|name| name.starts_with(PREFIX))
        else {
            return Ok(());
        };
        let name = self.types.keep(&name)?;
        let Some(Target {
            types,
            at: Some(at),
        }) = self.types.target(entry)?
        else {
            return Ok(());
        };
        let target = self.types.spell(self.types.target(entry)?)?;
        if let Some(signature) = function_of(&target) {
            let functions = self.abi.functions.entry(name);
            functions.or_insert_with(|| signature.to_owned());
        } else if target != name {
            self.abi.aliases.entry(name).or_insert(target);
        } else if types
            .unit
            .entry(at)?
            .attr_value(gimli::DW_AT_declaration)?
            .is_some()
        {
            self.abi.opaque.insert(name);
        }
        Ok(())
    }
}

/// Inserts a type under its name. If a different type already has the name, returns the new type instead.
fn put<T: PartialEq>(all: &mut BTreeMap<String, T>, name: &str, one: T) -> Option<T> {
    match all.get(name) {
        Some(known) if *known == one => None,
        Some(_) => Some(one),
        None => {
            all.insert(name.to_owned(), one);
            None
        }
    }
}
