//! Reads the layouts in the debug information of a built library.

mod types;
mod unit;

use crate::header::Error;
use crate::mirror::{Layout, StatedEnum, StatedField, StatedStruct};
use crate::model::Abi;
use gimli::{AbbreviationsCacheStrategy, EndianSlice, RunTimeEndian};
use object::{BinaryFormat, CompressionFormat, Object, ObjectKind, ObjectSection};
use std::collections::BTreeSet;
use types::{Budget, Dwarf, Unit};
use unit::UnitReader;

impl From<gimli::Error> for Error {
    fn from(error: gimli::Error) -> Self {
        Self::Dwarf(error.to_string())
    }
}

/// What the units of a built library know of XLA's FFI, each distinct answer once: parts that
/// were compiled against different headers differ. Empty where there is no debug information.
///
/// # Errors
/// [`Error::Dwarf`] when the debug information does not parse.
pub fn read_library(library: &[u8]) -> Result<Vec<Abi>, Error> {
    let mut found: Vec<Abi> = Vec::new();
    for_each_unit(library, |dwarf, unit, budget| {
        let (mut abi, _) = UnitReader::new(dwarf, unit, budget, None)?.read()?;
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
    let object = object::File::parse(library).map_err(|error| Error::Dwarf(error.to_string()))?;
    if object.format() == BinaryFormat::Elf && object.kind() == ObjectKind::Relocatable {
        return Err(Error::Dwarf(
            "it is from an object file: link the file with -shared".to_owned(),
        ));
    }
    let mut found: Vec<Layout> = Vec::new();
    let mut units = 0;
    let mut split = false;
    let mut apart = false;
    for_each_unit(library, |dwarf, unit, budget| {
        units += 1;
        apart |= dwarf.type_units().next()?.is_some()
            || matches!(unit.header.type_(), gimli::UnitType::Type { .. });
        split |= unit.dwo_id.is_some();
        let (abi, others) = UnitReader::new(dwarf, unit, budget, Some(&wanted))?.read()?;
        for abi in [&abi].into_iter().chain(&others) {
            let layout = stated(abi, expected);
            if layout != Layout::default() && !found.contains(&layout) {
                found.push(layout);
            }
        }
        Ok(())
    })?;
    if apart {
        return Err(Error::Dwarf(
            "its types are in separate units: build without -fdebug-types-section".to_owned(),
        ));
    }
    if split {
        return Err(Error::Dwarf(
            "its types are in .dwo files: build with -gno-split-dwarf".to_owned(),
        ));
    }
    if found.is_empty() {
        let apple = matches!(
            object::FileKind::parse(library),
            Ok(object::FileKind::MachO64)
        );
        return Err(Error::Dwarf(
            match units {
                0 if apple => {
                    "there is none, because linkers for macOS keep it in object files: compile with -g and pass an object \
                     file, or the file in the .dSYM of dsymutil"
                }
                0 => "there is none: build with -g and do not strip the library",
                _ => {
                    "it has none of the mirror's types: map their names with --names"
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
    mut visit: impl FnMut(&Dwarf<'a>, &Unit<'a>, &Budget) -> Result<(), Error>,
) -> Result<(), Error> {
    let object = object::File::parse(library).map_err(|error| Error::Dwarf(error.to_string()))?;
    let endian = if object.is_little_endian() {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    };
    let mut dwarf = Dwarf::load(|id| {
        let bytes = match object.section_by_name(id.name()) {
            Some(section) => {
                let range = section
                    .compressed_file_range()
                    .map_err(|error| Error::Dwarf(error.to_string()))?;
                if range.format != CompressionFormat::None {
                    return Err(Error::Dwarf(
                        "it is compressed: link without -gz, or run objcopy --decompress-debug-sections"
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
    // Units share abbreviations: parsed for each of them, a small file would take for ever.
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    let budget = Budget::of(library);
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        // The names of source files, too, may be shared by any number of units.
        let files = unit.line_program.as_ref();
        budget.spend(files.map_or(0, |lines| lines.header().file_names().len()))?;
        visit(&dwarf, &unit, &budget)?;
    }
    Ok(())
}
