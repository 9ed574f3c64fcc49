//! PE, and the objects of which it is linked.

use super::table::{Table, place};

/// How many libraries and functions of each are looked at.
const MOST: usize = 16;

/// Processors, and what a header of 32 bits says.
const KINDS: [u32; 5] = [0x8664, 0xaa64, 0x14c, 0x10b, 0x20b];

const SECTION: [usize; 10] = [8, 4, 4, 4, 4, 4, 4, 2, 2, 4];

/// The tables of an object file: there is no name for it at its beginning.
pub(super) fn object(file: &[u8], found: &mut Vec<Table>) -> Option<()> {
    let at = |place_of, width| place(file, place_of, width, false);
    let mut add = |table: Table| found.push(table.kinds(&KINDS));
    add(Table::of(file, 0, 1, &[2, 2, 4, 4, 4, 2, 2]));
    add(Table::of(file, 20 + at(16, 2)?, at(2, 2)?, &SECTION));
    add(Table::of(
        file,
        at(8, 4)?,
        at(12, 4)?,
        &[4, 4, 4, 2, 2, 1, 1],
    ));
    Some(())
}

pub(super) fn tables(file: &[u8], found: &mut Vec<Table>) -> Option<()> {
    let at = |place_of, width| place(file, place_of, width, false);
    let mut add = |table: Table| found.push(table.kinds(&KINDS));
    add(Table::of(file, 0x3c, 1, &[4]));
    let head = at(0x3c, 4)?;
    add(Table::of(file, head, 1, &[4, 2, 2, 4, 4, 4, 2, 2]));
    let (count, size) = (at(head + 6, 2)?, at(head + 20, 2)?);
    let optional = head + 24;
    // The folders end it.
    let folders = optional + if at(optional, 2)? == 0x10b { 96 } else { 112 };
    add(Table::of(file, optional, 1, &[2, 1, 1]));
    add(Table::sized(
        file,
        optional + 4,
        1,
        folders - optional - 4,
        &[4],
    ));
    add(Table::of(file, folders, 16, &[4, 4]));
    let sections = optional + size;
    add(Table::of(file, sections, count, &SECTION));
    // Where an address lies in the file.
    let lies = |address: usize| {
        (0..count.min(MOST)).find_map(|index| {
            let section = sections + index * 40;
            let start = at(section + 12, 4)?;
            let within = address.checked_sub(start)?;
            (within < at(section + 16, 4)?).then_some(at(section + 20, 4)? + within)
        })
    };
    let points = |place_of| lies(at(place_of, 4)?);
    if let Some(exports) = points(folders) {
        add(Table::of(
            file,
            exports,
            1,
            &[4, 4, 2, 2, 4, 4, 4, 4, 4, 4, 4],
        ));
        let lists: [(usize, usize, &'static [usize]); 3] =
            [(20, 28, &[4]), (24, 32, &[4]), (24, 36, &[2])];
        for (count, list, widths) in lists {
            let list = points(exports + list)?;
            add(Table::of(file, list, at(exports + count, 4)?, widths));
        }
    }
    let imports = points(folders + 8)?;
    let libraries = Table::of(file, imports, MOST, &[4; 5]);
    add(libraries);
    for library in 0..libraries.count {
        let library = libraries.entry(library);
        if at(library + 12, 4)? == 0 {
            break;
        }
        for list in [0, 16] {
            if let Some(list) = points(library + list) {
                add(Table::of(file, list, MOST, &[8]));
            }
        }
    }
    Some(())
}
