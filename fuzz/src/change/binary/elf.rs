//! ELF.

use super::table::{Table, number, place};

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

/// How the entries of one class are laid out.
struct Class {
    header: &'static [usize],
    segment: &'static [usize],
    section: &'static [usize],
    symbol: &'static [usize],
    /// How many bytes an address takes.
    word: usize,
}

const NARROW: Class = Class {
    header: &[2, 2, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2],
    segment: &[4; 8],
    section: &[4; 10],
    symbol: &[4, 4, 4, 1, 1, 2],
    word: 4,
};
const WIDE: Class = Class {
    header: &[2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2],
    segment: &[4, 4, 8, 8, 8, 8, 8, 8],
    section: &[4, 4, 8, 8, 8, 8, 4, 4, 8, 8],
    symbol: &[4, 1, 1, 2, 8, 8],
    word: 8,
};

pub(super) fn tables(file: &[u8], found: &mut Vec<Table>) -> Option<()> {
    let class = if file.get(4)? == &1 { NARROW } else { WIDE };
    let big = file.get(5)? == &2;
    let at = |place_of, width| place(file, place_of, width, big);
    let mut add = |table: Table| found.push(table.big(big).kinds(&KINDS));
    add(Table::of(file, 0, 1, &[1; 16]));
    add(Table::of(file, 16, 1, class.header));
    let counts = 24 + 3 * class.word + 4;
    let segments = at(24 + class.word, class.word)?;
    add(Table::of(file, segments, at(counts + 4, 2)?, class.segment));
    let (sections, count) = (at(24 + 2 * class.word, class.word)?, at(counts + 8, 2)?);
    // Twice: of all tables this one has the most to tell.
    let table = Table::of(file, sections, count, class.section);
    add(table);
    add(table);
    for index in 0..table.count {
        let header = table.entry(index);
        let from = at(header + 8 + 2 * class.word, class.word)?;
        let size = at(header + 8 + 3 * class.word, class.word)?;
        let words: &'static [usize] = if class.word == 8 { &[8] } else { &[4] };
        let widths = match number(file, header + 4, 4, big)? {
            2 | 11 => class.symbol,
            4 | 6 | 9 => words,           // relocations, the dynamic section
            5 | 7 | 17 => &[4],           // hashes, notes, groups
            0x6fff_fff6 => &[4],          // the GNU hash
            0x6fff_ffff => &[2],          // versions of symbols
            0x6fff_fffd => &[2, 2, 4, 4], // versions that are defined
            0x6fff_fffe => &[2, 2, 4, 4], // versions that are needed
            _ => continue,
        };
        let entry: usize = widths.iter().sum();
        add(Table::of(file, from, size / entry, widths));
    }
    Some(())
}
