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

/// The words of a text of JSON: strings, numbers, what stands for itself, and lists and groups as a whole.
fn words(text: &[u8]) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut open = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let from = at;
        let rest = &text[at + 1..];
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        at += 1;
        match text[from] {
            b'"' => match rest.iter().position(|byte| *byte == b'"') {
                Some(length) => at += length + 1,
                None => continue,
            },
            b'[' | b'{' => {
                open.push(from);
                continue;
            }
            b']' | b'}' => {
                words.extend(open.pop().map(|from| from..at));
                continue;
            }
            byte if is_plain(&byte) => at += rest.iter().take_while(|byte| is_plain(byte)).count(),
            _ => continue,
        }
        words.push(from..at);
    }
    words
}

/// Puts one word of a text in the place of another or, with a comma, before it; gives the new length, if there is room.
fn exchange(text: &mut [u8], length: usize, dice: &mut Dice) -> Option<usize> {
    let words = words(&text[..length]);
    let (mut place, from) = (dice.one(&words)?.clone(), dice.one(&words)?.clone());
    let mut word = text[from].to_vec();
    if dice.below(4) == 0 {
        place.end = place.start;
        word.push(b',');
    }
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
        let plainly = (0..).map(Dice::new).find(|dice| dice.clone().below(2) == 0);
        let new = change(&mut file, size, &mut plainly.unwrap(), longer);
        assert_eq!(new, Some(size + 3));
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
            b"\"a\"",
            b"1",
            b"-2.5e3",
            b"[1, -2.5e3]",
            b"\"b\"",
            b"null",
            text,
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
