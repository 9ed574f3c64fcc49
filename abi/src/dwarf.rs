//! Reads layouts from the debug information of a built library.

mod types;
mod unit;

use crate::header::Error;
use crate::mirror::{Layout, StatedEnum, StatedField, StatedStruct};
use crate::model::{Abi, ELSEWHERE};
use gimli::{AbbreviationsCacheStrategy, EndianSlice, RunTimeEndian};
use object::{BinaryFormat, CompressionFormat, Object, ObjectKind, ObjectSection};
use std::collections::BTreeSet;
use types::{Budget, Dwarf, Given, Types};
use unit::UnitReader;

impl From<gimli::Error> for Error {
    fn from(error: gimli::Error) -> Self {
        Self::Dwarf(error.to_string())
    }
}

/// Returns the FFI layouts of each compilation unit in a built library, without duplicates.
///
/// Units that were compiled with different headers have different layouts. The result is empty if the library has no
/// debug information.
///
/// # Errors
/// [`Error::Dwarf`] if the debug information does not parse.
pub fn read_library(library: &[u8]) -> Result<Vec<Abi>, Error> {
    let mut found: Vec<Abi> = Vec::new();
    for_each_unit(library, None, |types| {
        let abis = UnitReader::new(types, None).read()?.unwrap_or_default();
        for mut abi in abis.into_iter().take(1) {
            abi.settle();
            abi.structs.retain(|_, layout| {
                let mut fields = layout.fields.iter();
                !fields.any(|field| field.ty.contains(ELSEWHERE) || field.name == ELSEWHERE)
            });
            abi.enums
                .retain(|_, numbers| !numbers.values.contains_key(ELSEWHERE));
            if !abi.structs.is_empty() && !found.contains(&abi) {
                found.push(abi);
            }
        }
        Ok(())
    })?;
    Ok(found)
}

/// Returns a mirror's layouts of each compilation unit in a built library, without duplicates.
///
/// The keys of `expected` are the names of the mirror's types. Compilers omit unused types from debug information.
///
/// # Errors
/// [`Error::Dwarf`] if there is no debug information or it does not parse.
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
    let (mut units, mut has_types) = (0, false);
    let (mut apart, mut split) = (false, false);
    for_each_unit(library, Some(&wanted), |types| {
        units += 1;
        apart |= types.dwarf.type_units().next()?.is_some()
            || matches!(types.unit.header.type_(), gimli::UnitType::Type { .. });
        split |= types.unit.dwo_id.is_some();
        let abis = UnitReader::new(types, Some(&wanted)).read()?;
        has_types |= abis.is_some();
        for abi in &abis.unwrap_or_default() {
            let layout = stated(abi, expected);
            if layout != Layout::default() && !found.iter_mut().any(|one| one.absorb(&layout)) {
                found.push(layout);
            }
        }
        Ok(())
    })?;
    let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let is_apple = object.format() == BinaryFormat::MachO;
    let other = object.gnu_debugaltlink().ok().flatten();
    let apart_from = object.gnu_debuglink().ok().flatten();
    let why = match (other, apart_from) {
        _ if apart => "its types are in separate units: build without -fdebug-types-section".to_owned(),
        _ if split => "its types are in .dwo files: build with -gno-split-dwarf".to_owned(),
        _ if !found.is_empty() => return Ok(found),
        (Some((file, _)), _) => format!(
            "its types are in {} (dwz -m): pass the library as it was before dwz",
            name(file)
        ),
        (_, Some((file, _))) if units == 0 => {
            format!("it was stripped and is in {0} (.gnu_debuglink): pass {0}", name(file))
        }
        _ if units == 0 && is_apple => {
            "there is none, because linkers for macOS keep it in object files: compile with -g and pass an object file, \
             or the file in the .dSYM of dsymutil"
                .to_owned()
        }
        _ if units == 0 => "there is none: build with -g and do not strip the library".to_owned(),
        _ if !has_types => {
            "it has line numbers but no types (-g1, debug = \"line-tables-only\"): build with -g".to_owned()
        }
        _ => "it has none of the mirror's types: map their names with --names".to_owned(),
    };
    Err(Error::Dwarf(why))
}

/// Converts layouts of the model to layouts of a mirror, for the names in `expected`.
fn stated(abi: &Abi, expected: &Layout) -> Layout {
    let mut layout = Layout::default();
    for (name, found) in &abi.structs {
        if !expected.structs.contains_key(name) {
            continue;
        }
        let fields = found.fields.iter();
        // If the names of a struct's fields are in a different file, the fields would seem to be missing, so the struct
        // is skipped.
        if fields
            .clone()
            .any(|field| field.name == ELSEWHERE || field.name.is_empty() && field.ty == ELSEWHERE)
        {
            continue;
        }
        let fields = fields.map(|field| (field.name.clone(), StatedField::of(field)));
        let stated = StatedStruct {
            size: found.size,
            align: None,
            fields: fields.collect(),
        };
        layout.structs.insert(name.clone(), stated);
    }
    let enums = abi.enums.iter();
    for (name, found) in enums.filter(|(_, found)| !found.values.contains_key(ELSEWHERE)) {
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

fn for_each_unit(
    library: &[u8],
    wanted: Option<&BTreeSet<String>>,
    mut visit: impl FnMut(Types<'_, '_>) -> Result<(), Error>,
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
    // Many units may share one table of abbreviations. The cache avoids parsing the table once per unit, which is
    // extremely slow.
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    let budget = Budget::of(library);
    let mut headers = dwarf.units();
    let mut units = Vec::new();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        // Many units may also share one list of source files, so reading the list for each unit counts toward the
        // budget.
        let files = unit.line_program.as_ref();
        budget.spend(files.map_or(0, |lines| lines.header().file_names().len()))?;
        units.push(unit);
    }
    let (mut given, none) = (Given::new(), Given::new());
    let types = |unit, given| Types {
        dwarf: &dwarf,
        unit,
        units: &units,
        budget: &budget,
        given,
    };
    for unit in &units {
        UnitReader::new(types(unit, &none), wanted).note_typedefs(&mut given)?;
    }
    for unit in &units {
        visit(types(unit, &given))?;
    }
    Ok(())
}
