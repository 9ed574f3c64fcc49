//! What one unit declares of the ABI.

use super::budget::Budget;
use super::types::Types;
use super::{Dwarf, Entry, Unit};
use crate::header::{self, Declared, Error, PROBE, PROTOTYPE, SUBJECT};
use crate::model::{Abi, FUNCTION, PREFIX};
use gimli::AttributeValue;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct UnitReader<'a, 'b> {
    types: Types<'a, 'b>,
    /// Whether declarations in namespaces count: a library has too many of them.
    in_namespaces: bool,
    /// The names that count, where they are not upstream's.
    wanted: Option<&'b BTreeSet<String>>,
    /// The namespaces around the entry that is looked at, outermost first.
    path: Vec<String>,
    abi: Abi,
    /// Types that have the name of another one of the unit, each alone.
    others: Vec<Abi>,
    /// Names of typedefs and numbers that stand for two things.
    twice: BTreeSet<String>,
    /// Names that the header under test declares itself.
    own: BTreeSet<String>,
}

impl<'a, 'b> UnitReader<'a, 'b> {
    pub(super) fn new(
        dwarf: &'b Dwarf<'a>,
        unit: &'b Unit<'a>,
        budget: &'b Budget,
        in_namespaces: bool,
        wanted: Option<&'b BTreeSet<String>>,
    ) -> Result<Self, Error> {
        let mut reader = Self {
            // What a library holds that is not ours has no layout that it has to keep.
            types: Types::new(dwarf, unit, budget, in_namespaces && wanted.is_none()),
            in_namespaces,
            wanted,
            path: Vec::new(),
            abi: Abi::default(),
            others: Vec::new(),
            twice: BTreeSet::new(),
            own: BTreeSet::new(),
        };
        reader.each(|reader, entry| reader.types.note_typedef(entry))?;
        Ok(reader)
    }

    pub(super) fn read(mut self) -> Result<Declared, Error> {
        self.each(|reader, entry| match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                reader.record(entry)
            }
            gimli::DW_TAG_enumeration_type => reader.enumeration(entry),
            gimli::DW_TAG_typedef => reader.typedef(entry),
            gimli::DW_TAG_variable if reader.types.inside() => reader.variable(entry),
            _ => Ok(()),
        })?;
        Ok(Declared {
            abi: self.abi,
            others: self.others,
            twice: self.twice,
            own: self.own,
        })
    }

    fn is_wanted(&self, name: &str) -> bool {
        match self.wanted {
            Some(wanted) => wanted.contains(name),
            None => name.starts_with(PREFIX),
        }
    }

    /// The name by which a type counts: with as much of its namespaces as is asked for.
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

    /// Whether what is declared within an entry counts.
    fn is_scope(&self, tag: gimli::DwTag) -> bool {
        match tag {
            gimli::DW_TAG_namespace => self.in_namespaces,
            // In C what stands in a struct of a header is as much its own as what stands before.
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                self.types.inside()
            }
            _ => false,
        }
    }

    /// Visits the declarations at file scope, and those of namespaces.
    fn each(
        &mut self,
        mut visit: impl FnMut(&mut Self, &Entry<'a, 'b>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut entries = self.types.unit.entries();
        // Of the entry that is looked at, and of the innermost namespace around it that counts.
        let (mut depth, mut scope) = (0, 0);
        while let Some((deeper, entry)) = entries.next_dfs()? {
            depth += deeper;
            scope = scope.min(depth - 1).max(0);
            // The unit stands around all.
            self.path.truncate(usize::try_from(scope).unwrap_or(0));
            if depth != scope + 1 {
                continue;
            }
            visit(self, entry)?;
            if self.is_scope(entry.tag()) {
                scope = depth;
                let name = self.types.name(entry)?.unwrap_or_default();
                self.path.push(self.types.keep(&name)?);
            }
        }
        self.path.clear();
        Ok(())
    }

    /// Notes a name that the header under test declares itself, and not what it includes.
    fn note(&mut self, name: &str, entry: &Entry<'a, 'b>) -> Result<(), Error> {
        if self.is_in_subject(entry)? {
            self.own.insert(name.to_owned());
        }
        Ok(())
    }

    fn is_in_subject(&self, entry: &Entry<'a, 'b>) -> Result<bool, Error> {
        let file = match entry.attr_value(gimli::DW_AT_decl_file)? {
            Some(AttributeValue::FileIndex(index)) => index,
            Some(value) => match value.udata_value() {
                Some(index) => index,
                None => return Ok(false),
            },
            None => return Ok(false),
        };
        let Some(program) = &self.types.unit.line_program else {
            return Ok(false);
        };
        let Some(file) = program.header().file(file) else {
            return Ok(false);
        };
        let path = self
            .types
            .dwarf
            .attr_string(self.types.unit, file.path_name())?;
        Ok(path.to_string_lossy().ends_with(SUBJECT))
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
        self.note(&name, entry)?;
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
        let in_subject = self.is_in_subject(entry)?;
        let name = self.types.tag_name(entry)?;
        match name {
            Some(name) => {
                if let Some(name) = self.wanted_name(&name)? {
                    self.note(&name, entry)?;
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
                    if let Some(name) = name.strip_prefix(PROBE) {
                        self.abi.constants.insert(name.to_owned(), value);
                    } else if self.is_wanted(&name) {
                        if in_subject {
                            self.own.insert(name.clone());
                        }
                        header::put(&mut self.abi.constants, &mut self.twice, name, value);
                    }
                }
            }
        }
        Ok(())
    }

    /// A variable that others have.
    fn variable(&mut self, entry: &Entry<'a, 'b>) -> Result<(), Error> {
        let is_elsewhere = entry.attr_value(gimli::DW_AT_declaration)?.is_some()
            && entry.attr_value(gimli::DW_AT_external)?.is_some();
        let name = self.types.name(entry)?;
        if let Some(name) = name.filter(|name| is_elsewhere && name.starts_with(PREFIX)) {
            let name = self.types.keep(&name)?;
            self.note(&name, entry)?;
            let ty = self.types.spell_held(self.types.target(entry)?, 0)?;
            header::put(&mut self.abi.variables, &mut self.twice, name, ty);
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
        if let Some(name) = name.strip_prefix(PROTOTYPE) {
            let target = self.types.spell(self.types.target(entry)?)?;
            if let Some(signature) = target.strip_prefix(FUNCTION) {
                let prototypes = &mut self.abi.prototypes;
                prototypes.insert(self.types.keep(name)?, signature.to_owned());
            }
            return Ok(());
        }
        let name = self.types.keep(&name)?;
        self.note(&name, entry)?;
        let Some(at) = self.types.target(entry)? else {
            return Ok(());
        };
        let target = self.types.spell_held(Some(at), 0)?;
        let (abi, twice) = (&mut self.abi, &mut self.twice);
        if let Some(signature) = target.strip_prefix(FUNCTION) {
            header::put(&mut abi.functions, twice, name, signature.to_owned());
        } else if target != name {
            header::put(&mut abi.aliases, twice, name, target);
        } else if self
            .types
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

/// Puts a type under its name; gives it back where another one has the name.
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
