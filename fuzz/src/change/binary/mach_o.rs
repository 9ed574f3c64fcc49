//! Mach-O, alone and in fat files.

use super::table::{Table, place};

/// More parts or commands are not looked at.
const MOST: usize = 64;

/// Processors, commands that need their bit.
const KINDS: [u32; 12] = [
    0x0100_0007,
    0x0100_000c,
    0x8000_0018,
    0x8000_001c,
    0x8000_001f,
    0x8000_0022,
    0x8000_0023,
    0x8000_0028,
    0x8000_0033,
    0x8000_0034,
    0x8000_0035,
    0x8000_0400,
];

/// The tables of a fat file and of its parts.
pub(super) fn fat(file: &[u8], found: &mut Vec<Table>) -> Option<()> {
    let count = place(file, 4, 4, true)?;
    let wide = file.get(3) == Some(&0xbf);
    found.push(Table::of(file, 0, 1, &[4, 4]).big(true));
    let parts = match wide {
        false => Table::of(file, 8, count, &[4, 4, 4, 4, 4]),
        true => Table::of(file, 8, count, &[4, 4, 8, 8, 4, 4]),
    };
    found.push(parts.big(true).kinds(&KINDS));
    for part in 0..parts.count.min(MOST) {
        let width = if wide { 8 } else { 4 };
        let from = place(file, parts.entry(part) + 8, width, true)?;
        tables(&file[from..], from, found);
    }
    Some(())
}

/// The tables of a file that begins at byte `base` of the whole.
pub(super) fn tables(file: &[u8], base: usize, found: &mut Vec<Table>) -> Option<()> {
    let (wide, big) = match file.get(..4)? {
        [0xcf, 0xfa, 0xed, 0xfe] => (true, false),
        [0xfe, 0xed, 0xfa, 0xcf] => (true, true),
        [0xce, 0xfa, 0xed, 0xfe] => (false, false),
        [0xfe, 0xed, 0xfa, 0xce] => (false, true),
        _ => return None,
    };
    let at = |place_of| place(file, place_of, 4, big);
    let mut add = |table: Table| found.push(table.within(base).kinds(&KINDS));
    let mut command = if wide { 32 } else { 28 };
    add(Table::sized(file, 0, 1, command, &[4]).big(big));
    for _ in 0..at(16)?.min(MOST) {
        let (kind, size) = (at(command)?, at(command + 4)?);
        add(Table::sized(file, command, 1, size, &[4]).big(big));
        match kind {
            // A segment.
            0x19 => {
                const SECTION: [usize; 14] = [8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4];
                let sections = Table::of(file, command + 72, at(command + 64)?, &SECTION);
                add(sections.big(big));
            }
            1 => {
                const SECTION: [usize; 13] = [8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4];
                let sections = Table::of(file, command + 56, at(command + 48)?, &SECTION);
                add(sections.big(big));
            }
            // Symbols.
            2 => {
                let widths: &[usize] = if wide {
                    &[4, 1, 1, 2, 8]
                } else {
                    &[4, 1, 1, 2, 4]
                };
                let (from, count) = (at(command + 8)?, at(command + 12)?);
                add(Table::of(file, from, count, widths).big(big));
            }
            // A signature.
            0x1d => {
                let (from, size) = (at(command + 8)?, at(command + 12)?);
                add(Table::of(file, from, size.min(128) / 4, &[4]).big(true));
            }
            _ => {}
        }
        command = command.checked_add(size)?;
    }
    Some(())
}
