//! The manifest at the end of a file: libFuzzer changes its text, and what states its length is put right.

use super::super::dice::Dice;
use super::table::{number, place, put};
use std::ops::Range;
use xla_ffi_doctor::manifest::MAGIC;

const HEAD: usize = 16;

/// Where the text of the last record of a file begins, if the file ends with it.
fn text(file: &[u8]) -> Option<usize> {
    let at = file.windows(MAGIC.len()).rposition(|part| part == MAGIC)?;
    let length = place(file, at + 12, 4, false)?;
    (at + HEAD + length == file.len()).then_some(at + HEAD)
}

/// The words of a text of JSON: strings, numbers and what stands for itself, lists and groups as far as the first end.
fn words(text: &[u8]) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let ends = |end: fn(u8) -> bool| text[at + 1..].iter().position(|byte| end(*byte));
        let behind = match text[at] {
            b'"' => ends(|byte| byte == b'"').map(|length| length + 2),
            byte if byte.is_ascii_alphanumeric() || byte == b'-' => {
                ends(|byte| !byte.is_ascii_alphanumeric() && !b"+-.".contains(&byte))
                    .map(|length| length + 1)
            }
            byte @ (b'[' | b'{') => {
                let end = if byte == b'[' { b']' } else { b'}' };
                let length = text[at..].iter().position(|byte| *byte == end);
                words.extend(length.map(|length| at..at + length + 1));
                None
            }
            _ => None,
        };
        words.extend(behind.map(|length| at..at + length));
        at += behind.unwrap_or(1);
    }
    words
}

/// Puts one word of a text in the place of another; gives the new length, if there is room.
fn exchange(text: &mut [u8], length: usize, dice: &mut Dice) -> Option<usize> {
    let words = words(&text[..length]);
    let (place, from) = (dice.one(&words)?.clone(), dice.one(&words)?.clone());
    let word = text[from].to_vec();
    let new = length - place.len() + word.len();
    if new > text.len() {
        return None;
    }
    text.copy_within(place.end..length, place.start + word.len());
    text[place.start..place.start + word.len()].copy_from_slice(&word);
    Some(new)
}

/// Exchanges words, or has `plain` change the text in the first `size` bytes of `file`; gives the new size.
pub(in crate::mutate) fn change(
    file: &mut [u8],
    size: usize,
    dice: &mut Dice,
    plain: impl FnOnce(&mut [u8], usize) -> usize,
) -> Option<usize> {
    let text = text(file.get(..size)?).filter(|text| *text < file.len())?;
    let length = match dice.below(2) {
        0 => plain(&mut file[text..], size - text),
        _ => exchange(&mut file[text..], size - text, dice)?,
    };
    let (old, new) = ((size - text) as u64, length as u64);
    put(file, text - 4, 4, false, new);
    // The header of its section states where it lies, and near that how long it is: ELF behind, Mach-O and PE before.
    let (start, head) = ((text - HEAD) as u64, HEAD as u64);
    for at in (0..text - HEAD).step_by(4) {
        if number(file, at, 4, false) == Some(start) {
            for near in [
                at.checked_sub(12),
                at.checked_sub(8),
                at.checked_sub(4),
                at.checked_add(8),
            ] {
                let Some(near) = near else { continue };
                if number(file, near, 4, false) == Some(head + old) {
                    put(file, near, 4, false, head + new);
                }
            }
        }
    }
    Some(text + length)
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
        let size = file.len();
        file.resize(size + 8, 0);
        let longer = |text: &mut [u8], size: usize| {
            assert_eq!(&text[..size], b"{}");
            text[size..size + 3].copy_from_slice(b"abc");
            size + 3
        };
        // Two braces are one word, and what takes its place is itself.
        let plainly = (0..9).map(Dice::new).find_map(|mut dice| {
            let new = change(&mut file, size, &mut dice, longer);
            new.filter(|new| *new != size)
        });
        assert_eq!(plainly, Some(size + 3));
        assert_eq!(number(&file, 32, 8, false), Some(21));
        assert_eq!(number(&file, 76, 4, false), Some(5));
        assert!(file[..size + 3].ends_with(b"{}abc"));
        file[size - 3] = 0;
        assert_eq!(change(&mut file, size, &mut Dice::new(0), |_, _| 0), None);
    }

    #[test]
    fn words_take_the_places_of_others() {
        let text = br#"{"a": [1, -2.5e3], "b": null}"#;
        let told: Vec<_> = words(text).into_iter().map(|word| &text[word]).collect();
        let all: [&[u8]; 7] = [
            text,
            b"\"a\"",
            b"[1, -2.5e3]",
            b"1",
            b"-2.5e3",
            b"\"b\"",
            b"null",
        ];
        assert_eq!(told, all);
        let mut dice = Dice::new(1);
        for _ in 0..100 {
            let mut room = text.to_vec();
            room.resize(60, 0);
            if let Some(length) = exchange(&mut room, text.len(), &mut dice) {
                assert!(length <= 60);
            }
        }
    }
}
