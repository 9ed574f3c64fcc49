//! Converts the types in the debug information of one compilation unit, and limits the cost of the conversion.

use crate::header::Error;
use crate::model::{
    ELSEWHERE, Enum, FUNCTION, Field, Struct, bit_field, complex, function, integer, pointer_to,
    qualified,
};
use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, EndianSlice, Endianity, Operation,
    Reader, RunTimeEndian, Section, UnitOffset,
};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

pub(super) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
pub(super) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
pub(super) type Unit<'a> = gimli::Unit<Slice<'a>>;
pub(super) type Entry<'a, 'b> = DebuggingInformationEntry<'b, 'b, Slice<'a>>;

/// The largest nesting depth of types, such as a pointer to an array of constants.
const DEPTH: usize = 32;

/// The names of typedefs of unnamed structs and enumerations, by the offset of the unnamed type.
pub(super) type Given<'a> = BTreeMap<DebugInfoOffset, Cow<'a, str>>;

/// Converts the types of one compilation unit to the model's notation.
#[derive(Clone, Copy)]
pub(super) struct Types<'a, 'b> {
    pub(super) dwarf: &'b Dwarf<'a>,
    pub(super) unit: &'b Unit<'a>,
    /// All compilation units of the file, in the order of the file.
    pub(super) units: &'b [Unit<'a>],
    pub(super) budget: &'b Budget,
    pub(super) given: &'b Given<'a>,
}

/// A reference to a type: a unit, and the type's offset in the unit. The offset is `None` if the type is in a different
/// file.
#[derive(Clone, Copy)]
pub(super) struct Target<'a, 'b> {
    pub(super) types: Types<'a, 'b>,
    pub(super) at: Option<UnitOffset>,
}

impl<'a, 'b> Types<'a, 'b> {
    /// Returns the layout of a struct, class or union.
    pub(super) fn layout(&self, entry: &Entry<'a, 'b>, depth: usize) -> Result<Struct, Error> {
        let mut layout = Struct {
            size: self.number(entry, gimli::DW_AT_byte_size)?.unwrap_or(0),
            align: self.align(entry.offset())?,
            is_union: entry.tag() == gimli::DW_TAG_union_type,
            ..Struct::default()
        };
        self.fields(entry.offset(), 0, depth, &mut layout.fields)?;
        Ok(layout)
    }

    /// Returns the layout of an enumeration, with its values.
    pub(super) fn enum_layout(&self, entry: &Entry<'a, 'b>) -> Result<Enum, Error> {
        let size = self.number(entry, gimli::DW_AT_byte_size)?.unwrap_or(0);
        Ok(Enum {
            size,
            signed: None,
            values: self.values(entry.offset())?,
        })
    }

    /// If the entry is a typedef of an unnamed type, records the typedef's name for the type.
    pub(super) fn note_typedef(
        &self,
        entry: &Entry<'a, 'b>,
        given: &mut Given<'a>,
    ) -> Result<(), Error> {
        if entry.tag() != gimli::DW_TAG_typedef {
            return Ok(());
        }
        if let (
            Some(name),
            Some(Target {
                types,
                at: Some(at),
            }),
        ) = (self.name(entry)?, self.target(entry)?)
        {
            if types.name(&types.unit.entry(at)?)?.is_none() {
                let at = at.to_debug_info_offset(&types.unit.header);
                at.map(|at| given.entry(at).or_insert(name));
            }
        }
        Ok(())
    }

    /// Returns the name of an entry. The length of the name counts toward the budget, because many entries may share
    /// one long name.
    pub(super) fn name(&self, entry: &Entry<'a, 'b>) -> Result<Option<Cow<'a, str>>, Error> {
        let Some(value) = entry.attr_value(gimli::DW_AT_name)? else {
            return Ok(None);
        };
        if let AttributeValue::DebugStrRefSup(_) = value {
            return Ok(Some(ELSEWHERE.into()));
        }
        let name = self.dwarf.attr_string(self.unit, value)?.to_string_lossy();
        self.budget.spend(1 + name.len() / 64)?;
        Ok(Some(name))
    }

    /// Subtracts `cost` from the budget for reading the file.
    pub(super) fn spend(&self, cost: usize) -> Result<(), Error> {
        self.budget.spend(cost)
    }

    /// Copies a name, whose length counts toward the budget.
    pub(super) fn keep(&self, name: &str) -> Result<String, Error> {
        self.budget.spend(name.len())?;
        Ok(name.to_owned())
    }

    /// Returns the name of a type. For an unnamed type, returns the name of its typedef.
    pub(super) fn tag_name(&self, entry: &Entry<'a, 'b>) -> Result<Option<Cow<'a, str>>, Error> {
        Ok(match self.name(entry)? {
            Some(name) => Some(name),
            None => {
                let at = entry.offset().to_debug_info_offset(&self.unit.header);
                at.and_then(|at| self.given.get(&at).cloned())
            }
        })
    }

    /// Returns the type to which the entry's attribute `DW_AT_type` refers. The type may be in a different unit.
    pub(super) fn target(&self, entry: &Entry<'a, 'b>) -> Result<Option<Target<'a, 'b>>, Error> {
        let at = match entry.attr_value(gimli::DW_AT_type)? {
            None => return Ok(None),
            Some(AttributeValue::UnitRef(offset)) => return Ok(Some(self.at(offset))),
            Some(AttributeValue::DebugInfoRef(offset)) => Some(offset),
            Some(_) => None,
        };
        let start = |unit: &Unit<'a>| unit.header.offset().as_debug_info_offset();
        let later = self.units.partition_point(|unit| start(unit) <= at);
        let unit = later
            .checked_sub(1)
            .map_or(self.unit, |index| &self.units[index]);
        let at = at.and_then(|at| at.to_unit_offset(&unit.header));
        let types = Self { unit, ..*self };
        Ok(Some(Target { types, at }))
    }

    fn at(self, at: UnitOffset) -> Target<'a, 'b> {
        let (types, at) = (self, Some(at));
        Target { types, at }
    }

    pub(super) fn number(
        &self,
        entry: &Entry<'a, 'b>,
        at: gimli::DwAt,
    ) -> Result<Option<u64>, Error> {
        Ok(entry.attr_value(at)?.and_then(|value| value.udata_value()))
    }

    /// Returns the offset of a field in bytes. Old versions of DWARF store the offset as an expression.
    pub(super) fn place(&self, member: &Entry<'a, 'b>) -> Result<u64, Error> {
        let Some(value) = member.attr_value(gimli::DW_AT_data_member_location)? else {
            return Ok(0);
        };
        let place = match &value {
            AttributeValue::Exprloc(expression) => {
                let mut operations = expression.operations(self.unit.encoding());
                match (operations.next()?, operations.next()?) {
                    (Some(Operation::PlusConstant { value }), None) => Some(value),
                    _ => None,
                }
            }
            value => value.udata_value(),
        };
        place.ok_or_else(|| Error::Dwarf("the place of a field is computed".to_owned()))
    }

    /// Calls `visit` for each direct child of an entry.
    pub(super) fn children(
        &self,
        of: UnitOffset,
        mut visit: impl FnMut(&Entry<'a, 'b>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut entries = self.unit.entries_at_offset(of)?;
        let mut depth = 0;
        while let Some((deeper, entry)) = entries.next_dfs()? {
            self.budget.spend(1)?;
            depth += deeper;
            match depth {
                0 if entry.offset() == of => {}
                1 => visit(entry)?,
                2.. => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// Appends the fields of a record that starts at byte `start` of the outermost record. Fields of unnamed unions and
    /// structs belong to the containing record, as in C.
    pub(super) fn fields(
        &self,
        of: UnitOffset,
        start: u64,
        depth: usize,
        found: &mut Vec<Field>,
    ) -> Result<(), Error> {
        self.children(of, |member| {
            if !is_field(member)? {
                return Ok(());
            }
            let target = self.target(member)?;
            let name = self.name(member)?.unwrap_or_default();
            let place = self.place(member)?;
            if let Some(Target {
                types,
                at: Some(at),
            }) = target.filter(|_| name.is_empty() && depth < DEPTH)
            {
                return types.fields(at, start.wrapping_add(place), depth + 1, found);
            }
            let mut ty = self.spell_within(target, depth)?;
            let mut offset = start.wrapping_add(place);
            let size = self.size(target)?;
            if let Some(bits) = self.number(member, gimli::DW_AT_bit_size)? {
                let first = self.first_bit(member, place, bits, target)?;
                let bit = first.wrapping_add(start.wrapping_mul(8));
                offset = bit / 8;
                ty = bit_field(ty, size, bits, bit);
            }
            found.push(Field {
                name: self.keep(&name)?,
                ty,
                offset,
                size,
            });
            Ok(())
        })
    }

    /// Returns the offset in bits, from the start of the record, of a bit-field. Before version 5, DWARF counts from
    /// the highest bit of the field's type; Clang also does so in version 5.
    fn first_bit(
        &self,
        member: &Entry<'a, 'b>,
        place: u64,
        bits: u64,
        target: Option<Target<'a, 'b>>,
    ) -> Result<u64, Error> {
        if let Some(first) = self.number(member, gimli::DW_AT_data_bit_offset)? {
            return Ok(first);
        }
        let at = place.wrapping_mul(8);
        // The offset is negative if the bit-field extends past the first unit of its type.
        let from_highest = match member.attr_value(gimli::DW_AT_bit_offset)? {
            Some(AttributeValue::Sdata(offset)) => offset as u64,
            Some(value) => value.udata_value().unwrap_or(0),
            None => return Ok(at),
        };
        let word = match self.number(member, gimli::DW_AT_byte_size)? {
            Some(bytes) => bytes,
            None => self.size(target)?,
        };
        if self.dwarf.debug_info.reader().endian().is_big_endian() {
            return Ok(at.wrapping_add(from_highest));
        }
        let end = at.wrapping_add(word.wrapping_mul(8));
        Ok(end.wrapping_sub(from_highest).wrapping_sub(bits))
    }

    /// Returns the enumerators of an enumeration with their values.
    pub(super) fn values(&self, of: UnitOffset) -> Result<BTreeMap<String, i64>, Error> {
        let mut values = BTreeMap::new();
        self.children(of, |child| {
            if child.tag() == gimli::DW_TAG_enumerator {
                if let (Some(name), Some(value)) = (
                    self.name(child)?,
                    child.attr_value(gimli::DW_AT_const_value)?,
                ) {
                    // Unsigned enumerators may be stored in a form of fixed size that does not indicate a sign.
                    let value = match value {
                        AttributeValue::Sdata(value) => Some(value),
                        value => value.udata_value().map(|value| value as i64),
                    };
                    if let Some(value) = value {
                        values.insert(self.keep(&name)?, value);
                    }
                }
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// Returns the text for a type in the model's notation.
    pub(super) fn spell(&self, at: Option<Target<'a, 'b>>) -> Result<String, Error> {
        self.spell_within(at, 0)
    }

    fn spell_within(&self, at: Option<Target<'a, 'b>>, depth: usize) -> Result<String, Error> {
        let spelled = self.spell_one(at, depth)?;
        self.budget.spend(1 + spelled.len())?;
        Ok(spelled)
    }

    fn spell_one(&self, at: Option<Target<'a, 'b>>, depth: usize) -> Result<String, Error> {
        let Some(Target { types, at }) = at else {
            return Ok("void".to_owned());
        };
        if depth > DEPTH {
            return Ok("…".to_owned());
        }
        let Some(at) = at else {
            return Ok(ELSEWHERE.to_owned());
        };
        let entry = types.unit.entry(at)?;
        let inner = || types.spell_within(types.target(&entry)?, depth + 1);
        Ok(match entry.tag() {
            gimli::DW_TAG_pointer_type => pointer_to(&inner()?),
            gimli::DW_TAG_const_type => qualified(true, false, inner()?),
            gimli::DW_TAG_volatile_type => qualified(false, true, inner()?),
            gimli::DW_TAG_restrict_type | gimli::DW_TAG_atomic_type => inner()?,
            gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                format!("&{}", inner()?)
            }
            gimli::DW_TAG_typedef => inner()?,
            gimli::DW_TAG_base_type => types.base(&entry)?,
            gimli::DW_TAG_subroutine_type => types.signature(&entry, depth)?,
            gimli::DW_TAG_array_type => types.array(&entry, depth)?,
            _ => types
                .tag_name(&entry)?
                .map_or_else(|| "anonymous".to_owned(), Cow::into_owned),
        })
    }

    fn base(&self, entry: &Entry<'a, 'b>) -> Result<String, Error> {
        let bytes = self.number(entry, gimli::DW_AT_byte_size)?.unwrap_or(0);
        let name = self.name(entry)?.unwrap_or_default().into_owned();
        let encoding = match entry.attr_value(gimli::DW_AT_encoding)? {
            Some(AttributeValue::Encoding(encoding)) => encoding,
            _ => return Ok(name),
        };
        Ok(match encoding {
            // DWARF has no standard encoding for the complex integers of GCC, so the name of the type is parsed.
            _ if is_complex(entry)? => {
                let words = name.trim_start_matches('_');
                let part = words
                    .strip_prefix("Complex")
                    .or(words.strip_prefix("complex"));
                let is_float = encoding == gimli::DW_ATE_complex_float;
                // Clang names every complex type `complex`, so the name does not contain the parts' type.
                match part.map(str::trim) {
                    Some("") | None if is_float => format!("complex f{}", bytes.saturating_mul(4)),
                    Some("") => complex("int", bytes),
                    part => complex(part.unwrap_or(words), bytes),
                }
            }
            // The sign of `char` and `wchar_t` depends on the platform, so the name of the type is kept.
            _ if name == "char" || name == "wchar_t" => name,
            gimli::DW_ATE_boolean => "bool".to_owned(),
            gimli::DW_ATE_signed | gimli::DW_ATE_signed_char => integer(bytes, true),
            gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char => integer(bytes, false),
            gimli::DW_ATE_float
                if matches!(&*name, "_Float16" | "float" | "double" | "long double") =>
            {
                format!("f{}", bytes.saturating_mul(8))
            }
            _ => name,
        })
    }

    fn signature(&self, entry: &Entry<'a, 'b>, depth: usize) -> Result<String, Error> {
        let mut parameters = Vec::new();
        self.children(entry.offset(), |child| {
            match child.tag() {
                gimli::DW_TAG_formal_parameter => {
                    let parameter = self.spell_within(self.target(child)?, depth + 1)?;
                    parameters.push(parameter);
                }
                gimli::DW_TAG_unspecified_parameters => parameters.push("...".to_owned()),
                _ => {}
            }
            Ok(())
        })?;
        let result = self.spell_within(self.target(entry)?, depth + 1)?;
        Ok(format!("{FUNCTION}{}", function(&parameters, &result)))
    }

    /// Returns the number of elements in each dimension of an array; `None` if the number is unknown.
    fn dimensions(&self, entry: &Entry<'a, 'b>) -> Result<Vec<Option<u64>>, Error> {
        let mut dimensions = Vec::new();
        self.children(entry.offset(), |child| {
            if child.tag() == gimli::DW_TAG_subrange_type {
                let count = match self.number(child, gimli::DW_AT_count)? {
                    Some(count) => Some(count),
                    None => self
                        .number(child, gimli::DW_AT_upper_bound)?
                        .map(|last| last.wrapping_add(1)),
                };
                dimensions.push(count);
            }
            Ok(())
        })?;
        Ok(dimensions)
    }

    fn array(&self, entry: &Entry<'a, 'b>, depth: usize) -> Result<String, Error> {
        let mut spelled = self.spell_within(self.target(entry)?, depth + 1)?;
        for dimension in self.dimensions(entry)?.into_iter().rev() {
            spelled = match dimension {
                Some(count) => format!("[{spelled}; {count}]"),
                None => format!("[{spelled}]"),
            };
            self.budget.spend(spelled.len())?;
        }
        Ok(match is_vector(entry)? {
            true => format!("vector {spelled}"),
            false => spelled,
        })
    }

    /// Returns the size in bytes of a value of the type.
    pub(super) fn size(&self, at: Option<Target<'a, 'b>>) -> Result<u64, Error> {
        self.size_within(at, 0)
    }

    fn size_within(&self, at: Option<Target<'a, 'b>>, depth: usize) -> Result<u64, Error> {
        self.budget.spend(1)?;
        let Some(Target {
            types,
            at: Some(at),
        }) = at.filter(|_| depth <= DEPTH)
        else {
            return Ok(0);
        };
        let entry = types.unit.entry(at)?;
        if let Some(size) = types.number(&entry, gimli::DW_AT_byte_size)? {
            return Ok(size);
        }
        let target = types.target(&entry)?;
        Ok(match entry.tag() {
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => u64::from(types.unit.encoding().address_size),
            gimli::DW_TAG_array_type => {
                let element = types.size_within(target, depth + 1)?;
                types
                    .dimensions(&entry)?
                    .into_iter()
                    .fold(element, |size, count| {
                        size.saturating_mul(count.unwrap_or(0))
                    })
            }
            gimli::DW_TAG_subroutine_type => 0,
            _ => types.size_within(target, depth + 1)?,
        })
    }

    /// Returns the alignment of a type. Debug information contains only explicit alignments. For other types, numbers
    /// and pointers are aligned to their size, and structs like their most aligned field.
    pub(super) fn align(&self, at: UnitOffset) -> Result<u64, Error> {
        self.align_within(at, 0)
    }

    fn align_within(&self, at: UnitOffset, depth: usize) -> Result<u64, Error> {
        self.budget.spend(1)?;
        if depth > DEPTH {
            return Ok(1);
        }
        let entry = self.unit.entry(at)?;
        let asked = self.number(&entry, gimli::DW_AT_alignment)?.unwrap_or(1);
        let target = self.target(&entry)?;
        let natural = match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let mut align = 1;
                self.children(at, |member| {
                    if is_field(member)? || member.tag() == gimli::DW_TAG_inheritance {
                        let asked = self.number(member, gimli::DW_AT_alignment)?.unwrap_or(1);
                        align = align.max(asked);
                        if let Some(Target {
                            types,
                            at: Some(at),
                        }) = self.target(member)?
                        {
                            align = align.max(types.align_within(at, depth + 1)?);
                        }
                    }
                    Ok(())
                })?;
                align
            }
            gimli::DW_TAG_base_type if is_complex(&entry)? => {
                (self.size_within(Some(self.at(at)), depth)? / 2).max(1)
            }
            gimli::DW_TAG_array_type if is_vector(&entry)? => {
                self.size_within(Some(self.at(at)), depth)?.max(1)
            }
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_base_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => {
                self.size_within(Some(self.at(at)), depth)?.max(1)
            }
            _ => match target {
                Some(Target {
                    types,
                    at: Some(at),
                }) => types.align_within(at, depth + 1)?,
                _ => 1,
            },
        };
        Ok(natural.max(asked))
    }
}

/// Returns true if the array type is a GNU vector type.
fn is_vector(array: &Entry<'_, '_>) -> Result<bool, Error> {
    Ok(array.attr_value(gimli::DW_AT_GNU_vector)?.is_some())
}

fn is_complex(base: &Entry<'_, '_>) -> Result<bool, Error> {
    Ok(match base.attr_value(gimli::DW_AT_encoding)? {
        Some(AttributeValue::Encoding(gimli::DW_ATE_complex_float)) => true,
        // GCC and Clang use vendor-specific encodings for complex integers.
        Some(AttributeValue::Encoding(one)) => one.0 >= gimli::DW_ATE_lo_user.0,
        _ => false,
    })
}

/// Returns true if an entry is a non-static field. DWARF also uses the tag for static members of C++, which have no
/// bytes in the struct.
fn is_field(member: &Entry<'_, '_>) -> Result<bool, Error> {
    let is_static = member.attr_value(gimli::DW_AT_external)?.is_some()
        || member.attr_value(gimli::DW_AT_declaration)?.is_some();
    Ok(member.tag() == gimli::DW_TAG_member && !is_static)
}

/// The largest cost of reading a file, per byte of the file. One byte of text or one visited entry costs 1.
const A_BYTE: usize = 64;

/// A limit on the cost of reading the types of a file.
///
/// Types in debug information may be recursive: a function that takes itself as two parameters needs 2³² entries for 32
/// levels. A long name that a thousand entries share costs its length a thousand times. The limit depends on the length
/// of the file, and valid files do not reach it.
pub(super) struct Budget(Cell<usize>);

impl Budget {
    pub(super) fn of(library: &[u8]) -> Self {
        Self(Cell::new(A_BYTE.saturating_mul(library.len())))
    }

    /// Subtracts `cost` from the budget.
    pub(super) fn spend(&self, cost: usize) -> Result<(), Error> {
        let left = self.0.get().checked_sub(cost).ok_or_else(|| {
            Error::Dwarf(format!(
                "its types expand to more than {A_BYTE} times the size of the file"
            ))
        })?;
        self.0.set(left);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_cost_as_much_as_its_length_allows() {
        let budget = Budget::of(&[0; 10]);
        budget.spend(10 * A_BYTE).unwrap();
        budget.spend(0).unwrap();
        let error = budget.spend(1).unwrap_err().to_string();
        assert!(error.contains("more than 64 times the size"), "{error}");
    }
}
