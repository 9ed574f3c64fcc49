//! Tables of ELF, Mach-O, fat and PE files: one field is changed, or one entry is put in the place of another.

mod elf;
mod mach_o;
pub(crate) mod manifest;
mod pe;
mod table;

use crate::change::Dice;
use table::{Table, number, put};

pub(crate) fn change(file: &mut [u8], dice: &mut Dice) -> Option<()> {
    let tables = tables(file);
    let table = dice.of(&tables)?;
    let (entry, other) = (dice.below(table.count), dice.below(table.count));
    let (at, there) = (table.entry(entry), table.entry(other));
    match dice.below(10) {
        0 => file.copy_within(there..there + table.size, at),
        1 => {
            for byte in 0..table.size {
                file.swap(at + byte, there + byte);
            }
        }
        _ => {
            let fields = table.fields();
            let (from, width) = *dice.of(&fields)?;
            let old = number(file, at + from, width, table.big)?;
            let length = file.len() as u64;
            let bits = 8 * width as u32;
            let new = match dice.below(12) {
                0 => dice.below(4) as u64,
                1 => u64::MAX,
                2 => length.wrapping_add(dice.below(3) as u64).wrapping_sub(1),
                3 => old.wrapping_add(1),
                4 => old.wrapping_sub(1),
                5 => old ^ 1 << (dice.number() % u64::from(bits)),
                6 => dice.below(64) as u64,
                7 => dice.below(file.len()) as u64,
                8 => number(file, there + from, width, table.big)?,
                9 => {
                    // What another table has: a place, an address, a kind.
                    let table = dice.of(&tables)?;
                    let fields = table.fields();
                    let (from, width) = *dice.of(&fields)?;
                    let entry = table.entry(dice.below(table.count));
                    number(file, entry + from, width, table.big)?
                }
                10 => u64::from(*dice.of(table.kinds)?),
                _ => dice.number(),
            };
            put(file, at + from, width, table.big, new);
        }
    }
    Some(())
}

/// The tables of a file, as far as it is sound.
fn tables(file: &[u8]) -> Vec<Table> {
    let mut found = Vec::new();
    match file {
        [0x7f, b'E', b'L', b'F', ..] => elf::tables(file, &mut found),
        [b'M', b'Z', ..] => pe::tables(file, &mut found),
        [0xca, 0xfe, 0xba, 0xbe | 0xbf, ..] => mach_o::fat(file, &mut found),
        [0x64, 0x86, ..] | [0x4c, 0x01, ..] => pe::object(file, &mut found),
        _ => mach_o::tables(file, 0, &mut found),
    };
    found.retain(|table| table.count > 0);
    found
}
