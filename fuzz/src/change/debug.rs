//! DWARF, in whichever file it lies: what an entry is, says and refers to is changed, and its neighbours stay in their
//! places.

use crate::change::Dice;
use gimli::{
    AttributeSpecification, DebugAbbrev, DebugInfo, EndianSlice, RunTimeEndian, UnitSectionOffset,
};
use object::{Object, ObjectSection};
use std::ops::Range;

/// Kinds of entries that readers tell apart.
const TAGS: [u64; 26] = [
    0x01, 0x02, 0x04, 0x05, 0x0d, 0x0f, 0x10, 0x11, 0x13, 0x15, 0x16, 0x17, 0x18, 0x21, 0x24, 0x26,
    0x28, 0x34, 0x35, 0x37, 0x39, 0x3c, 0x41, 0x42, 0x47, 0x4a,
];
/// What they say of themselves.
const ATTRIBUTES: [u64; 33] = [
    0x03, 0x0b, 0x0c, 0x0d, 0x10, 0x11, 0x12, 0x13, 0x1b, 0x1c, 0x2f, 0x36, 0x37, 0x38, 0x3a, 0x3c,
    0x3e, 0x3f, 0x49, 0x55, 0x6b, 0x72, 0x73, 0x74, 0x76, 0x88, 0x8c, 0x2107, 0x2130, 0x2131,
    0x2132, 0x2133, 0x2134,
];
/// And how: up to here, and GNU's.
const LAST_FORM: u64 = 0x2c;
const GNU_FORMS: [u64; 4] = [0x1f01, 0x1f02, 0x1f20, 0x1f21];

/// Units and entries of one file that are looked at.
const MOST: usize = 2048;

/// What of an abbreviation lies where.
#[derive(Default)]
struct Abbreviations {
    tags: Vec<Range<usize>>,
    /// Whether entries have others below them.
    children: Vec<usize>,
    attributes: Vec<Range<usize>>,
    forms: Vec<Range<usize>>,
}

/// What of the entries lies where.
#[derive(Default)]
struct Entries {
    headers: Vec<usize>,
    codes: Vec<usize>,
    /// Of each unit, where its entries begin, counted from the unit's own beginning.
    offsets: Vec<u32>,
    values: Vec<(Range<usize>, AttributeSpecification)>,
}

struct Sections {
    abbreviations: Range<usize>,
    entries: Range<usize>,
    /// All others of debug information.
    others: Vec<Range<usize>>,
    endian: RunTimeEndian,
}

pub(crate) fn change(file: &mut [u8], dice: &mut Dice) -> Option<()> {
    let sections = sections(file)?;
    let is_big = sections.endian == RunTimeEndian::Big;
    match dice.below(12) {
        0..=3 => change_abbreviation(file, &sections.abbreviations, dice),
        4 => {
            let others = &sections.others;
            let place = dice.of(others)?.clone();
            // Headers stand at the beginning.
            let length = place.len().min([16, 64, place.len()][dice.below(3)]);
            let at = place.start + dice.below(length);
            let old = *file.get(at)?;
            file[at] = any(dice, old.into()) as u8;
            Some(())
        }
        _ => change_entry(file, &sections, is_big, dice),
    }
}

fn sections(file: &[u8]) -> Option<Sections> {
    let object = object::File::parse(file).ok()?;
    let place = |section: object::Section<'_, '_>| {
        let (from, size) = section.file_range()?;
        let (from, size) = (usize::try_from(from).ok()?, usize::try_from(size).ok()?);
        let range = from..from.checked_add(size)?;
        (range.end <= file.len() && size > 0).then_some(range)
    };
    let named = |name| object.section_by_name(name).and_then(place);
    let names = [
        ".debug_str",
        ".debug_line",
        ".debug_line_str",
        ".debug_str_offsets",
        ".debug_addr",
        ".debug_rnglists",
        ".debug_ranges",
        ".debug_types",
    ];
    Some(Sections {
        abbreviations: named(".debug_abbrev")?,
        entries: named(".debug_info")?,
        others: names.into_iter().filter_map(named).collect(),
        endian: match object.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        },
    })
}

/// A number that is not this one.
fn any(dice: &mut Dice, old: u64) -> u64 {
    match dice.below(6) {
        0 => dice.below(9) as u64,
        1 => u64::MAX,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => old ^ 1 << dice.below(8),
        _ => dice.number(),
    }
}

fn change_abbreviation(file: &mut [u8], place: &Range<usize>, dice: &mut Dice) -> Option<()> {
    let found = abbreviations(file.get(place.clone())?);
    let within = |range: &Range<usize>| place.start + range.start..place.start + range.end;
    match dice.below(5) {
        0 => put_long(file, within(dice.of(&found.tags)?), *dice.of(&TAGS)?),
        1 => put_long(
            file,
            within(dice.of(&found.attributes)?),
            *dice.of(&ATTRIBUTES)?,
        ),
        2 | 3 => {
            let form = match dice.below(8) {
                0 => *dice.of(&GNU_FORMS)?,
                _ => 1 + dice.number() % LAST_FORM,
            };
            put_long(file, within(dice.of(&found.forms)?), form)
        }
        _ => {
            let at = place.start + dice.of(&found.children)?;
            file[at] ^= 1;
            Some(())
        }
    }
}

fn change_entry(file: &mut [u8], sections: &Sections, is_big: bool, dice: &mut Dice) -> Option<()> {
    let found = entries(file, sections);
    let start = sections.entries.start;
    match dice.below(12) {
        // Its length, version, kind, the size of an address, its abbreviations.
        0 | 1 => {
            let at = start + dice.of(&found.headers)? + dice.below(24);
            let old = *file.get(at)?;
            file[at] = any(dice, old.into()) as u8;
        }
        // Another kind of entry.
        2 => {
            let (at, from) = (*dice.of(&found.codes)?, *dice.of(&found.codes)?);
            file[start + at] = file[start + from];
        }
        _ => {
            let (place, spec) = dice.of(&found.values)?;
            let place = start + place.start..start + place.end;
            let form = spec.form();
            let refers = matches!(
                form,
                gimli::DW_FORM_ref1
                    | gimli::DW_FORM_ref2
                    | gimli::DW_FORM_ref4
                    | gimli::DW_FORM_ref8
                    | gimli::DW_FORM_ref_udata
                    | gimli::DW_FORM_ref_addr
            );
            let new = match refers {
                true => u64::from(*dice.of(&found.offsets)?),
                false if dice.below(3) == 0 => dice.below(file.len()) as u64,
                false => any(dice, file[place.start].into()),
            };
            let is_long = matches!(
                form,
                gimli::DW_FORM_udata
                    | gimli::DW_FORM_sdata
                    | gimli::DW_FORM_ref_udata
                    | gimli::DW_FORM_strx
                    | gimli::DW_FORM_addrx
                    | gimli::DW_FORM_rnglistx
                    | gimli::DW_FORM_loclistx
            );
            if is_long {
                return put_long(file, place, new);
            }
            if place.len() <= 8 {
                let mut bytes = new.to_le_bytes();
                let bytes = &mut bytes[..place.len()];
                if is_big {
                    bytes.reverse();
                }
                file[place].copy_from_slice(bytes);
            } else {
                let at = place.start + dice.below(place.len());
                file[at] = new as u8;
            }
        }
    }
    Some(())
}

fn abbreviations(section: &[u8]) -> Abbreviations {
    let mut found = Abbreviations::default();
    let mut at = 0;
    while at < section.len() {
        let Some(code) = long(section, &mut at) else {
            break;
        };
        // None follows: another unit's may.
        if section[code] == [0] {
            continue;
        }
        let Some(tag) = long(section, &mut at) else {
            break;
        };
        found.tags.push(tag);
        if at < section.len() {
            found.children.push(at);
        }
        at += 1;
        while let (Some(attribute), Some(form)) = (long(section, &mut at), long(section, &mut at)) {
            if section[attribute.clone()] == [0] {
                break;
            }
            // This form alone has its value here.
            if section[form.clone()] == [0x21] {
                long(section, &mut at);
            }
            found.attributes.push(attribute);
            found.forms.push(form);
        }
    }
    found
}

/// A number in bytes of seven bits; goes behind it.
fn long(bytes: &[u8], at: &mut usize) -> Option<Range<usize>> {
    let from = *at;
    let more = bytes.get(from..)?.iter().position(|byte| *byte < 0x80)?;
    *at = from + more + 1;
    Some(from..*at)
}

/// Writes such a number into as many bytes as are there, if they suffice.
fn put_long(file: &mut [u8], place: Range<usize>, mut value: u64) -> Option<()> {
    let bits = u32::try_from(place.len() * 7).ok()?;
    if bits < 64 {
        value &= (1 << bits) - 1;
    }
    let last = place.end.checked_sub(1)?;
    for at in place {
        file[at] = (value & 0x7f) as u8 | if at < last { 0x80 } else { 0 };
        value >>= 7;
    }
    Some(())
}

/// The entries as far as they are sound.
fn entries(file: &[u8], sections: &Sections) -> Entries {
    let mut found = Entries::default();
    let slice = |range: &Range<usize>| &file[range.clone()];
    let info = DebugInfo::new(slice(&sections.entries), sections.endian);
    let abbreviations = DebugAbbrev::new(slice(&sections.abbreviations), sections.endian);
    let mut units = info.units();
    while let Ok(Some(header)) = units.next() {
        let UnitSectionOffset::DebugInfoOffset(base) = header.offset() else {
            break;
        };
        found.headers.push(base.0);
        // What is read before the fault stays.
        let _ = entries_of(&header, base.0, &abbreviations, &mut found);
        if found.values.len() > MOST {
            break;
        }
    }
    found
}

fn entries_of<'a>(
    header: &gimli::UnitHeader<EndianSlice<'a, RunTimeEndian>>,
    base: usize,
    abbreviations: &DebugAbbrev<EndianSlice<'a, RunTimeEndian>>,
    found: &mut Entries,
) -> gimli::Result<()> {
    let abbreviations = header.abbreviations(abbreviations)?;
    let mut entries = header.entries_raw(&abbreviations, None)?;
    while !entries.is_empty() && found.values.len() <= MOST {
        let at = entries.next_offset().0;
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        found.codes.push(base + at);
        found.offsets.extend(u32::try_from(at));
        for spec in abbreviation.attributes() {
            let from = base + entries.next_offset().0;
            entries.read_attribute(*spec)?;
            let to = base + entries.next_offset().0;
            if to > from {
                found.values.push((from..to, *spec));
            }
        }
    }
    Ok(())
}
