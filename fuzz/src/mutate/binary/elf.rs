//! ELF of 64 bits.

use super::table::{Table, place};

/// Types of segments and sections, tags of the dynamic section, and what else is told by a number this large.
const KINDS: [u32; 16] = [
    0x6474_e550,
    0x6474_e551,
    0x6474_e552,
    0x6474_e553,
    0x6fff_fef5,
    0x6fff_fff0,
    0x6fff_fff6,
    0x6fff_fffb,
    0x6fff_fffc,
    0x6fff_fffd,
    0x6fff_fffe,
    0x6fff_ffff,
    0xffff,
    0xff00,
    0xfff1,
    0xfff2,
];

pub(super) fn tables(file: &[u8], found: &mut Vec<Table>) -> Option<()> {
    let big = file.get(5) == Some(&2);
    let at = |place_of, width| place(file, place_of, width, big);
    let mut add = |table: Table| found.push(table.big(big).kinds(&KINDS));
    add(Table::of(file, 0, 1, &[1; 16]));
    const HEADER: [usize; 13] = [2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2];
    add(Table::of(file, 16, 1, &HEADER));
    let segments = at(32, 8)?;
    add(Table::of(
        file,
        segments,
        at(56, 2)?,
        &[4, 4, 8, 8, 8, 8, 8, 8],
    ));
    let (sections, count) = (at(40, 8)?, at(60, 2)?);
    const SECTION: [usize; 10] = [4, 4, 8, 8, 8, 8, 4, 4, 8, 8];
    // Twice: of all tables this one has the most to tell.
    add(Table::of(file, sections, count, &SECTION));
    add(Table::of(file, sections, count, &SECTION));
    for index in 0..count {
        let header = sections + index * 64;
        let (from, size) = (at(header + 24, 8)?, at(header + 32, 8)?);
        let widths: &'static [usize] = match at(header + 4, 4)? {
            2 | 11 => &[4, 1, 1, 2, 8, 8], // symbols
            4 => &[8, 8, 8],               // relocations
            6 | 9 => &[8, 8],              // the dynamic section
            5 | 7 | 17 => &[4],            // hashes, notes, groups
            _ => match crate::mutate::binary::number(file, header + 4, 4, big)? {
                0x6fff_fff6 => &[4],                        // the GNU hash
                0x6fff_ffff => &[2],                        // versions of symbols
                0x6fff_fffe | 0x6fff_fffd => &[2, 2, 4, 4], // needed and defined versions
                _ => continue,
            },
        };
        let entry: usize = widths.iter().sum();
        add(Table::of(file, from, size / entry, widths));
    }
    Some(())
}
