//! The third witness: debug information, of a compiled translation unit or of a built library.
//! It needs no libclang and finds fields that nobody told it of.

use crate::header::{Declared, Error, PROBE, PROTOTYPE, SUBJECT};
use crate::mirror::{Layout, StatedEnum, StatedField, StatedStruct};
use crate::model::{Abi, Enum, FUNCTION, Field, PREFIX, Struct, function, integer, pointer_to};
use gimli::{
    AttributeValue, DebuggingInformationEntry, EndianSlice, RunTimeEndian, Unit, UnitOffset,
};
use object::{CompressionFormat, Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet};

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
type Entry<'a, 'b> = DebuggingInformationEntry<'b, 'b, Slice<'a>>;

const DEPTH: usize = 32;

impl From<gimli::Error> for Error {
    fn from(error: gimli::Error) -> Self {
        Self::Dwarf(error.to_string())
    }
}

/// What the header under test declares, from the library that was compiled of it.
///
/// # Errors
/// [`Error::Dwarf`] when the debug information does not parse.
pub fn read_subject(library: &[u8]) -> Result<Declared, Error> {
    let mut found = Declared::default();
    for_each_unit(library, |dwarf, unit| {
        let mut reader = UnitReader::new(dwarf, unit, true, None)?;
        reader.read()?;
        found = Declared {
            abi: reader.abi,
            own: reader.own,
        };
        Ok(())
    })?;
    Ok(found)
}

/// What the units of a built library know of XLA's FFI, each distinct answer once: parts that
/// were compiled against different headers differ. Empty where there is no debug information.
///
/// # Errors
/// [`Error::Dwarf`] when the debug information does not parse.
pub fn read_library(library: &[u8]) -> Result<Vec<Abi>, Error> {
    let mut found: Vec<Abi> = Vec::new();
    for_each_unit(library, |dwarf, unit| {
        let mut reader = UnitReader::new(dwarf, unit, false, None)?;
        reader.read()?;
        let mut abi = reader.abi;
        abi.settle();
        if !abi.structs.is_empty() && !found.contains(&abi) {
            found.push(abi);
        }
        Ok(())
    })?;
    Ok(found)
}

/// What the units of a built library say of a mirror's types, which the revision has under the names of
/// `expected`: each distinct answer once. Types that nothing uses are not in a library's debug information.
///
/// # Errors
/// [`Error::Dwarf`] when there is no debug information, or it does not parse.
pub fn read_mirror(library: &[u8], expected: &Layout) -> Result<Vec<Layout>, Error> {
    let wanted: BTreeSet<String> = expected
        .structs
        .keys()
        .chain(expected.enums.keys())
        .chain(expected.constants.keys())
        .cloned()
        .collect();
    let mut found: Vec<Layout> = Vec::new();
    let mut units = 0;
    let mut split = false;
    let mut apart = false;
    for_each_unit(library, |dwarf, unit| {
        units += 1;
        apart |= dwarf.type_units().next()?.is_some()
            || matches!(unit.header.type_(), gimli::UnitType::Type { .. });
        split |= unit.dwo_id.is_some();
        let mut reader = UnitReader::new(dwarf, unit, true, Some(&wanted))?;
        reader.read()?;
        let layout = stated(&reader.abi, expected);
        if layout != Layout::default() && !found.contains(&layout) {
            found.push(layout);
        }
        Ok(())
    })?;
    if apart {
        return Err(Error::Dwarf(
            "its types lie in units of their own; build without -fdebug-types-section".to_owned(),
        ));
    }
    if found.is_empty() {
        let apple = matches!(
            object::FileKind::parse(library),
            Ok(object::FileKind::MachO64)
        );
        return Err(Error::Dwarf(
            match (units, split) {
                (0, _) if apple => {
                    "there is none, as linkers for macOS leave it in the object files: compile with -g, and name such \
                     a file, or that in the .dSYM which dsymutil makes of them"
                }
                (0, _) => "there is none: it was stripped, or built without -g",
                (_, true) => {
                    "it is split: the types lie in .dwo files; build with -gno-split-dwarf"
                }
                (_, false) => {
                    "it has none of the mirror's types; a naming map says what they are called"
                }
            }
            .to_owned(),
        ));
    }
    Ok(found)
}

/// Layouts as a mirror states them. A number in a struct of its own (a Rust newtype) is no enumeration.
fn stated(abi: &Abi, expected: &Layout) -> Layout {
    let mut layout = Layout::default();
    for (name, found) in &abi.structs {
        if !expected.structs.contains_key(name) {
            continue;
        }
        let fields = found.fields.iter();
        let fields = fields.map(|field| (field.name.clone(), StatedField::of(field)));
        let stated = StatedStruct {
            size: found.size,
            align: None,
            fields: fields.collect(),
        };
        layout.structs.insert(name.clone(), stated);
    }
    for (name, found) in &abi.enums {
        let stated = StatedEnum {
            size: Some(found.size),
            values: found.values.clone(),
        };
        layout.enums.insert(name.clone(), stated);
    }
    let constants = abi.constants.iter();
    let known = constants.filter(|(name, _)| expected.constants.contains_key(*name));
    layout.constants = known.map(|(name, value)| (name.clone(), *value)).collect();
    layout
}

fn for_each_unit<'a>(
    library: &'a [u8],
    mut visit: impl FnMut(&Dwarf<'a>, &Unit<Slice<'a>>) -> Result<(), Error>,
) -> Result<(), Error> {
    let object = object::File::parse(library).map_err(|error| Error::Dwarf(error.to_string()))?;
    let endian = if object.is_little_endian() {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    };
    let dwarf = Dwarf::load(|id| {
        let bytes = match object.section_by_name(id.name()) {
            Some(section) => {
                let range = section
                    .compressed_file_range()
                    .map_err(|error| Error::Dwarf(error.to_string()))?;
                if range.format != CompressionFormat::None {
                    return Err(Error::Dwarf(
                        "it is compressed: link without -gz, or undo it with objcopy --decompress-debug-sections"
                            .to_owned(),
                    ));
                }
                section
                    .data()
                    .map_err(|error| Error::Dwarf(error.to_string()))?
            }
            None => &[],
        };
        Ok(EndianSlice::new(bytes, endian))
    })?;
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        visit(&dwarf, &unit)?;
    }
    Ok(())
}

struct UnitReader<'a, 'b> {
    dwarf: &'b Dwarf<'a>,
    unit: &'b Unit<Slice<'a>>,
    /// Whether declarations in namespaces count: a library has too many of them.
    in_namespaces: bool,
    /// The names that count, where they are not upstream's.
    wanted: Option<&'b BTreeSet<String>>,
    /// Names that a typedef gives to a struct or enumeration without one.
    given: BTreeMap<UnitOffset, String>,
    abi: Abi,
    /// Names that the header under test declares itself.
    own: BTreeSet<String>,
}

impl<'a, 'b> UnitReader<'a, 'b> {
    fn new(
        dwarf: &'b Dwarf<'a>,
        unit: &'b Unit<Slice<'a>>,
        in_namespaces: bool,
        wanted: Option<&'b BTreeSet<String>>,
    ) -> Result<Self, Error> {
        let mut reader = Self {
            dwarf,
            unit,
            in_namespaces,
            wanted,
            given: BTreeMap::new(),
            abi: Abi::default(),
            own: BTreeSet::new(),
        };
        reader.each(|reader, entry| {
            if entry.tag() == gimli::DW_TAG_typedef {
                if let (Some(name), Some(target)) = (reader.name(entry)?, reader.target(entry)?) {
                    let target = reader.unit.entry(target)?;
                    if reader.name(&target)?.is_none() {
                        reader.given.entry(target.offset()).or_insert(name);
                    }
                }
            }
            Ok(())
        })?;
        Ok(reader)
    }

    fn read(&mut self) -> Result<(), Error> {
        self.each(|reader, entry| match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                reader.record(entry)
            }
            gimli::DW_TAG_enumeration_type => reader.enumeration(entry),
            gimli::DW_TAG_typedef => reader.typedef(entry),
            _ => Ok(()),
        })
    }

    fn is_wanted(&self, name: &str) -> bool {
        match self.wanted {
            Some(wanted) => wanted.contains(name),
            None => name.starts_with(PREFIX),
        }
    }

    /// Visits the declarations at file scope, and those of namespaces.
    fn each(
        &mut self,
        mut visit: impl FnMut(&mut Self, &Entry<'a, 'b>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut scopes: Vec<Option<UnitOffset>> = vec![None];
        while let Some(scope) = scopes.pop() {
            let mut tree = self.unit.entries_tree(scope)?;
            let mut children = tree.root()?.children();
            while let Some(child) = children.next()? {
                let entry = child.entry();
                if entry.tag() == gimli::DW_TAG_namespace && self.in_namespaces {
                    scopes.push(Some(entry.offset()));
                }
                visit(self, entry)?;
            }
        }
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
        let Some(program) = &self.unit.line_program else {
            return Ok(false);
        };
        let Some(file) = program.header().file(file) else {
            return Ok(false);
        };
        let path = self.dwarf.attr_string(self.unit, file.path_name())?;
        Ok(path.to_string_lossy().ends_with(SUBJECT))
    }

    fn name(&self, entry: &Entry<'a, 'b>) -> Result<Option<String>, Error> {
        match entry.attr_value(gimli::DW_AT_name)? {
            Some(value) => {
                let name = self.dwarf.attr_string(self.unit, value)?;
                Ok(Some(name.to_string_lossy().into_owned()))
            }
            None => Ok(None),
        }
    }

    fn tag_name(&self, entry: &Entry<'a, 'b>) -> Result<Option<String>, Error> {
        Ok(match self.name(entry)? {
            Some(name) => Some(name),
            None => self.given.get(&entry.offset()).cloned(),
        })
    }

    fn target(&self, entry: &Entry<'a, 'b>) -> Result<Option<UnitOffset>, Error> {
        Ok(match entry.attr_value(gimli::DW_AT_type)? {
            Some(AttributeValue::UnitRef(offset)) => Some(offset),
            Some(AttributeValue::DebugInfoRef(offset)) => offset.to_unit_offset(&self.unit.header),
            _ => None,
        })
    }

    fn number(&self, entry: &Entry<'a, 'b>, at: gimli::DwAt) -> Result<Option<u64>, Error> {
        Ok(entry.attr_value(at)?.and_then(|value| value.udata_value()))
    }

    fn record(&mut self, entry: &Entry<'a, 'b>) -> Result<(), Error> {
        let Some(name) = self.tag_name(entry)?.filter(|name| self.is_wanted(name)) else {
            return Ok(());
        };
        let is_complete = entry.attr_value(gimli::DW_AT_declaration)?.is_none();
        if !is_complete {
            return Ok(());
        }
        self.note(&name, entry)?;
        let mut layout = Struct {
            size: self.number(entry, gimli::DW_AT_byte_size)?.unwrap_or(0),
            align: self.align(entry.offset(), 0)?,
            ..Struct::default()
        };
        let mut tree = self.unit.entries_tree(Some(entry.offset()))?;
        let mut members = tree.root()?.children();
        while let Some(member) = members.next()? {
            let member = member.entry();
            if member.tag() != gimli::DW_TAG_member {
                continue;
            }
            let target = self.target(member)?;
            let mut ty = self.spell(target, 0)?;
            let mut offset = self
                .number(member, gimli::DW_AT_data_member_location)?
                .unwrap_or(0);
            if let Some(bits) = self.number(member, gimli::DW_AT_bit_size)? {
                let bit = self
                    .number(member, gimli::DW_AT_data_bit_offset)?
                    .unwrap_or(8 * offset);
                offset = bit / 8;
                ty = format!("{ty}: {bits} bits from bit {}", bit % 8);
            }
            layout.fields.push(Field {
                name: self.name(member)?.unwrap_or_default(),
                ty,
                offset,
                size: self.size(target, 0)?,
            });
        }
        self.abi.structs.insert(name, layout);
        Ok(())
    }

    fn enumeration(&mut self, entry: &Entry<'a, 'b>) -> Result<(), Error> {
        let in_subject = self.is_in_subject(entry)?;
        let name = self.tag_name(entry)?;
        let mut values = BTreeMap::new();
        let mut tree = self.unit.entries_tree(Some(entry.offset()))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let child = child.entry();
            if child.tag() == gimli::DW_TAG_enumerator {
                if let (Some(name), Some(value)) = (
                    self.name(child)?,
                    child.attr_value(gimli::DW_AT_const_value)?,
                ) {
                    // A fixed-size form carries no sign, and small enumerators are unsigned.
                    let value = match value {
                        AttributeValue::Sdata(value) => Some(value),
                        value => value.udata_value().map(|value| value as i64),
                    };
                    if let Some(value) = value {
                        values.insert(name, value);
                    }
                }
            }
        }
        match name {
            Some(name) => {
                if self.is_wanted(&name) {
                    self.note(&name, entry)?;
                    let size = self.number(entry, gimli::DW_AT_byte_size)?.unwrap_or(0);
                    self.abi.enums.insert(name, Enum { size, values });
                }
            }
            None => {
                for (name, value) in values {
                    if let Some(name) = name.strip_prefix(PROBE) {
                        self.abi.constants.insert(name.to_owned(), value);
                    } else if self.is_wanted(&name) {
                        if in_subject {
                            self.own.insert(name.clone());
                        }
                        self.abi.constants.insert(name, value);
                    }
                }
            }
        }
        Ok(())
    }

    fn typedef(&mut self, entry: &Entry<'a, 'b>) -> Result<(), Error> {
        let Some(name) = self.name(entry)?.filter(|name| name.starts_with(PREFIX)) else {
            return Ok(());
        };
        if let Some(name) = name.strip_prefix(PROTOTYPE) {
            let target = self.spell(self.target(entry)?, 0)?;
            if let Some(signature) = target.strip_prefix(FUNCTION) {
                let prototypes = &mut self.abi.prototypes;
                prototypes.insert(name.to_owned(), signature.to_owned());
            }
            return Ok(());
        }
        self.note(&name, entry)?;
        let Some(at) = self.target(entry)? else {
            return Ok(());
        };
        let target = self.spell(Some(at), 0)?;
        if let Some(signature) = target.strip_prefix(FUNCTION) {
            self.abi.functions.insert(name, signature.to_owned());
        } else if target != name {
            self.abi.aliases.insert(name, target);
        } else if self
            .unit
            .entry(at)?
            .attr_value(gimli::DW_AT_declaration)?
            .is_some()
        {
            self.abi.opaque.insert(name);
        }
        Ok(())
    }

    /// A type in the model's notation.
    fn spell(&self, at: Option<UnitOffset>, depth: usize) -> Result<String, Error> {
        let Some(at) = at else {
            return Ok("void".to_owned());
        };
        if depth > DEPTH {
            return Ok("…".to_owned());
        }
        let entry = self.unit.entry(at)?;
        let inner = || self.spell(self.target(&entry)?, depth + 1);
        Ok(match entry.tag() {
            gimli::DW_TAG_pointer_type => pointer_to(&inner()?),
            gimli::DW_TAG_const_type => format!("const {}", inner()?),
            gimli::DW_TAG_volatile_type => format!("volatile {}", inner()?),
            gimli::DW_TAG_restrict_type | gimli::DW_TAG_atomic_type => inner()?,
            gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                format!("&{}", inner()?)
            }
            gimli::DW_TAG_typedef => inner()?,
            gimli::DW_TAG_base_type => self.base(&entry)?,
            gimli::DW_TAG_subroutine_type => self.signature(&entry, depth)?,
            gimli::DW_TAG_array_type => self.array(&entry, depth)?,
            _ => self
                .tag_name(&entry)?
                .unwrap_or_else(|| "anonymous".to_owned()),
        })
    }

    fn base(&self, entry: &Entry<'a, 'b>) -> Result<String, Error> {
        let bytes = self.number(entry, gimli::DW_AT_byte_size)?.unwrap_or(0);
        let name = self.name(entry)?.unwrap_or_default();
        let encoding = match entry.attr_value(gimli::DW_AT_encoding)? {
            Some(AttributeValue::Encoding(encoding)) => encoding,
            _ => return Ok(name),
        };
        Ok(match encoding {
            _ if name == "char" => name,
            gimli::DW_ATE_boolean => "bool".to_owned(),
            gimli::DW_ATE_signed | gimli::DW_ATE_signed_char => integer(bytes, true),
            gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char => integer(bytes, false),
            gimli::DW_ATE_float => format!("f{}", bytes.saturating_mul(8)),
            _ => name,
        })
    }

    fn signature(&self, entry: &Entry<'a, 'b>, depth: usize) -> Result<String, Error> {
        let mut parameters = Vec::new();
        let mut tree = self.unit.entries_tree(Some(entry.offset()))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let child = child.entry();
            match child.tag() {
                gimli::DW_TAG_formal_parameter => {
                    let parameter = self.spell(self.target(child)?, depth + 1)?;
                    // `const` on a parameter itself is no part of a function's type.
                    let plain = parameter.strip_prefix("const ").unwrap_or(&parameter);
                    parameters.push(plain.to_owned());
                }
                gimli::DW_TAG_unspecified_parameters => parameters.push("...".to_owned()),
                _ => {}
            }
        }
        let result = self.spell(self.target(entry)?, depth + 1)?;
        Ok(format!("{FUNCTION}{}", function(&parameters, &result)))
    }

    /// The number of elements of each dimension; `None` where it is open.
    fn dimensions(&self, entry: &Entry<'a, 'b>) -> Result<Vec<Option<u64>>, Error> {
        let mut dimensions = Vec::new();
        let mut tree = self.unit.entries_tree(Some(entry.offset()))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let child = child.entry();
            if child.tag() == gimli::DW_TAG_subrange_type {
                let count = match self.number(child, gimli::DW_AT_count)? {
                    Some(count) => Some(count),
                    None => self
                        .number(child, gimli::DW_AT_upper_bound)?
                        .map(|last| last.wrapping_add(1)),
                };
                dimensions.push(count);
            }
        }
        Ok(dimensions)
    }

    fn array(&self, entry: &Entry<'a, 'b>, depth: usize) -> Result<String, Error> {
        let mut spelled = self.spell(self.target(entry)?, depth + 1)?;
        for dimension in self.dimensions(entry)?.into_iter().rev() {
            spelled = match dimension {
                Some(count) => format!("[{spelled}; {count}]"),
                None => format!("[{spelled}]"),
            };
        }
        Ok(spelled)
    }

    fn size(&self, at: Option<UnitOffset>, depth: usize) -> Result<u64, Error> {
        let Some(at) = at.filter(|_| depth <= DEPTH) else {
            return Ok(0);
        };
        let entry = self.unit.entry(at)?;
        if let Some(size) = self.number(&entry, gimli::DW_AT_byte_size)? {
            return Ok(size);
        }
        let target = self.target(&entry)?;
        Ok(match entry.tag() {
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => u64::from(self.unit.encoding().address_size),
            gimli::DW_TAG_array_type => {
                let element = self.size(target, depth + 1)?;
                self.dimensions(&entry)?
                    .into_iter()
                    .fold(element, |size, count| {
                        size.saturating_mul(count.unwrap_or(0))
                    })
            }
            gimli::DW_TAG_subroutine_type => 0,
            _ => self.size(target, depth + 1)?,
        })
    }

    /// The alignment of a type. Debug information states only what the source asked for, so the
    /// rest follows from the rules of the platform: numbers and pointers are aligned to their size.
    fn align(&self, at: UnitOffset, depth: usize) -> Result<u64, Error> {
        if depth > DEPTH {
            return Ok(1);
        }
        let entry = self.unit.entry(at)?;
        let asked = self.number(&entry, gimli::DW_AT_alignment)?.unwrap_or(1);
        let target = self.target(&entry)?;
        let natural = match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let mut align = 1;
                let mut tree = self.unit.entries_tree(Some(at))?;
                let mut members = tree.root()?.children();
                while let Some(member) = members.next()? {
                    let member = member.entry();
                    if member.tag() == gimli::DW_TAG_member {
                        let asked = self.number(member, gimli::DW_AT_alignment)?.unwrap_or(1);
                        align = align.max(asked);
                        if let Some(target) = self.target(member)? {
                            align = align.max(self.align(target, depth + 1)?);
                        }
                    }
                }
                align
            }
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_base_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => self.size(Some(at), depth)?.max(1),
            _ => match target {
                Some(target) => self.align(target, depth + 1)?,
                None => 1,
            },
        };
        Ok(natural.max(asked))
    }
}
