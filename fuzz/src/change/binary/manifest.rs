//! The manifest at the end of a file: what states the length of its text follows that.

use super::table::{number, place, put};
use crate::change::{Dice, json};
use xla_ffi_doctor::manifest::MAGIC;

const HEAD: usize = 16;

/// Where the text of the last record of a file begins, if the file ends with it.
fn text(file: &[u8]) -> Option<usize> {
    let at = file.windows(MAGIC.len()).rposition(|part| part == MAGIC)?;
    let length = place(file, at + 12, 4, false)?;
    (at + HEAD + length == file.len()).then_some(at + HEAD)
}

/// Changes the text, if the file ends with it.
pub(crate) fn change(file: &[u8], dice: &mut Dice) -> Option<Vec<u8>> {
    let (text, size) = (text(file)?, file.len());
    let mut changed = file[text..].to_vec();
    json::change(&mut changed, dice);
    let mut file = [&file[..text], &changed].concat();
    let (old, new) = ((size - text) as u64, changed.len() as u64);
    put(&mut file, text - 4, 4, false, new);
    // The header of its section states where it lies, and near that how long it is: ELF behind, Mach-O and PE before.
    let (start, head) = ((text - HEAD) as u64, HEAD as u64);
    for at in (0..text - HEAD).step_by(4) {
        if number(&file, at, 4, false) == Some(start) {
            for near in [
                at.checked_sub(12),
                at.checked_sub(8),
                at.checked_sub(4),
                at.checked_add(8),
            ] {
                let Some(near) = near else { continue };
                if number(&file, near, 4, false) == Some(head + old) {
                    put(&mut file, near, 4, false, head + new);
                }
            }
        }
    }
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_the_text() {
        let mut file = vec![0; 64];
        put(&mut file, 24, 8, false, 64);
        put(&mut file, 32, 8, false, 18);
        file.extend(MAGIC);
        file.extend([1, 0, 0, 0, 2, 0, 0, 0, b'{', b'}']);
        for seed in 0..100 {
            let changed = change(&file, &mut Dice::new(seed)).unwrap();
            let length = changed.len() as u64 - 80;
            assert_eq!(number(&changed, 32, 8, false), Some(HEAD as u64 + length));
            assert_eq!(number(&changed, 76, 4, false), Some(length));
        }
        file.pop();
        assert_eq!(change(&file, &mut Dice::new(0)), None);
    }
}
