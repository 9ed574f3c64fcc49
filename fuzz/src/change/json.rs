//! Changes to JSON that leave most of it JSON. What changes bytes alone breaks the text before any reader of what it says
//! has seen it; here values are exchanged, left out, written often and otherwise, and keys are called otherwise.
//!
//! The text is changed and not a tree of it: keys that are there twice, escapes and blanks stay, and what is broken
//! already is changed as well.

use crate::change::Dice;
use std::ops::Range;

/// A value of the text.
#[derive(Clone, Debug)]
struct Item {
    /// Where it begins with its key; where the value does, if it has none.
    whole: usize,
    value: Range<usize>,
}

/// Values of each type, and those at which readers think twice.
#[rustfmt::skip]
const VALUES: &[&str] = &[
    "null", "true", "false", "0", "1", "-1", "-0", "2", "3", "8", "16", "255", "256", "1024", "1025",
    "4294967295", "4294967296", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616", "0.5",
    "-1.5", "1e3", "1E+3", "1e-7", "1.25e-400", "0e999999999999", "1e400", "1e-99999999999", "-1e99999999999",
    "123456789012345678901234567890", "0.12345678901234567890123", "1.7976931348623157e308", "00", "1.", "1e",
    "-", "nul", "tru", "fals", "\"\"", "\"a\"", "\"a b\"", "\"1\"", "\"\\u0001\"", "[]", "{}", "[[]]", "[{}]",
    "[0]", "[1,0]", "[2,1,0]", "[\"a\"]", "{\"a\":1}", "{\"a\":1,\"a\":2}",
];

/// What may stand in a string, and what may not.
#[rustfmt::skip]
const LETTERS: &[&str] = &[
    "\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t", "\\u0041", "\\u00e9", "\\u20AC", "\\uD83D\\uDE00",
    "\\ud83d", "\\ude00", "\\ud83d\\n", "\\ud83d\\u0041", "\\ud83dx", "\\u12", "\\u00g0", "\\x", "\\", "\n",
    "\u{7f}", "é", "€", "😀", " ", ".", "$", "_", "1", "0",
];

/// What may stand between values, and what may not.
#[rustfmt::skip]
const BETWEEN: &[&str] = &[
    " ", "\n", "\t", "\r\n", "  \n ", ",", ":", "}", "]", "{", "[", "\"", "x", "\u{b}", "0", "-", "\\",
];

/// Changes the text here and there.
pub(crate) fn change(text: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let items = items(text);
        let Some(item) = dice.of(&items).cloned() else {
            return text.extend(dice.of(VALUES).into_iter().flat_map(|value| value.bytes()));
        };
        change_one(text, &items, item, dice);
    }
}

fn change_one(text: &mut Vec<u8>, items: &[Item], item: Item, dice: &mut Dice) {
    let Some(other) = dice.of(items).cloned() else {
        return;
    };
    let bytes = |range: Range<usize>| text[range].to_vec();
    match dice.below(13) {
        0 => put(text, item.value, bytes(other.value)),
        1 | 2 => put(text, item.value, one(VALUES, dice)),
        3 => remove(text, &item),
        4 => repeat(text, &item, dice),
        5 => put(
            text,
            item.whole..item.value.start,
            bytes(other.whole..other.value.start),
        ),
        6 => letter(text, &item, dice),
        7 => exchange(text, &item, &other),
        8 => {
            let mut inserted = bytes(other.whole..other.value.end);
            inserted.push(b',');
            put(text, item.whole..item.whole, inserted);
        }
        9 => wrap(text, item.value, dice),
        10 => {
            let at = [item.whole, item.value.start, item.value.end][dice.below(3)];
            put(text, at..at, one(BETWEEN, dice));
        }
        11 => text.truncate(
            [item.whole, item.value.start, item.value.end][dice.below(3)] + dice.below(3),
        ),
        _ => list(text, items, item.value),
    }
}

fn one(some: &[&str], dice: &mut Dice) -> Vec<u8> {
    dice.of(some)
        .map_or(vec![], |some| some.as_bytes().to_vec())
}

fn put(text: &mut Vec<u8>, place: Range<usize>, bytes: Vec<u8>) {
    text.splice(place, bytes);
}

/// Leaves a value out, and a comma beside it.
fn remove(text: &mut Vec<u8>, item: &Item) {
    let behind = text[item.value.end..]
        .iter()
        .position(|byte| !byte.is_ascii_whitespace());
    let before = text[..item.whole]
        .iter()
        .rposition(|byte| !byte.is_ascii_whitespace());
    let place = match (behind.map(|at| item.value.end + at), before) {
        (Some(comma), _) if text[comma] == b',' => item.whole..comma + 1,
        (_, Some(comma)) if text[comma] == b',' => comma..item.value.end,
        _ => item.whole..item.value.end,
    };
    text.drain(place);
}

/// Writes a value again, some times or so often that maps and sorted lists grow in several steps. The first string of
/// each, which mostly is a name, has a number at its end, or all have the same.
fn repeat(text: &mut Vec<u8>, item: &Item, dice: &mut Dice) {
    const LONGEST: usize = 12_000;
    let whole = text[item.whole..item.value.end].to_vec();
    let most = (LONGEST / (whole.len() + 4)).max(1);
    let often = [2, 4, 40, 1000][dice.below(4)];
    let count = 1 + dice.below(often).min(most);
    let (numbered, step) = (dice.below(4) > 0, [1, 7, 31, 999][dice.below(4)]);
    let end = first_string(&whole).filter(|_| numbered);
    let mut copies = vec![];
    for number in 0..count {
        copies.push(b',');
        match end {
            Some(end) => {
                copies.extend(&whole[..end]);
                copies.extend((number * step % 1009).to_string().bytes());
                copies.extend(&whole[end..]);
            }
            None => copies.extend(&whole),
        }
    }
    put(text, item.value.end..item.value.end, copies);
}

/// Where the first string ends, at its quotation mark.
fn first_string(text: &[u8]) -> Option<usize> {
    let start = text.iter().position(|byte| *byte == b'"')?;
    Some(string(text, start) - 1).filter(|end| *end > start)
}

/// Puts letters into a string, in the place of one or beside it.
fn letter(text: &mut Vec<u8>, item: &Item, dice: &mut Dice) {
    let whole = item.whole..item.value.end;
    let Some(end) = first_string(&text[whole.clone()]).map(|end| whole.start + end) else {
        return;
    };
    let start = text[whole.start..]
        .iter()
        .position(|byte| *byte == b'"')
        .map_or(end, |at| whole.start + at + 1);
    let at = start + dice.below(end - start + 1);
    put(text, at..(at + dice.below(2)).min(end), one(LETTERS, dice));
}

fn exchange(text: &mut Vec<u8>, one: &Item, other: &Item) {
    let (first, second) = if one.whole < other.whole {
        (one, other)
    } else {
        (other, one)
    };
    // Of one in the other nothing is left to exchange.
    if first.value.end > second.whole {
        return;
    }
    let bytes = [
        second.whole..second.value.end,
        first.value.end..second.whole,
        first.whole..first.value.end,
    ];
    let bytes = bytes.map(|range| text[range].to_vec()).concat();
    put(text, first.whole..second.value.end, bytes);
}

/// Puts a value into a list or a map, or into so many that readers refuse them.
fn wrap(text: &mut Vec<u8>, value: Range<usize>, dice: &mut Dice) {
    let (open, close) = [("[", "]"), ("{\"a\":", "}")][dice.below(2)];
    let depth = [1, 1, 2, 127, 128][dice.below(5)];
    let inner = text[value.clone()].to_vec();
    let wrapped = [
        open.repeat(depth).into_bytes(),
        inner,
        close.repeat(depth).into_bytes(),
    ];
    put(text, value, wrapped.concat());
}

/// Makes a list of a map, with its values in their order: readers of structures take one as well.
fn list(text: &mut Vec<u8>, items: &[Item], value: Range<usize>) {
    if text.get(value.start) != Some(&b'{') {
        return;
    }
    let inside = |item: &&Item| value.start < item.whole && item.value.end < value.end;
    let within: Vec<&Item> = items.iter().filter(inside).collect();
    let mut listed = vec![];
    let direct = |item: &&&Item| {
        !within
            .iter()
            .any(|outer| outer.value.start < item.whole && item.value.end <= outer.value.end)
    };
    for item in within.iter().filter(direct) {
        listed.push(text[item.value.clone()].to_vec());
    }
    let listed = [b"[".to_vec(), listed.join(&b','), b"]".to_vec()].concat();
    put(text, value, listed);
}

/// The byte behind the string that begins at `start`.
fn string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// The values of the text, each behind those that are in it.
fn items(text: &[u8]) -> Vec<Item> {
    let (mut items, mut open, mut key) = (vec![], vec![], None);
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let start = at;
        at += 1;
        let value = match byte {
            b'{' | b'[' => {
                open.push((key.take().unwrap_or(start), start));
                continue;
            }
            b'}' | b']' => open.pop(),
            b'"' => {
                at = string(text, start);
                let behind = text[at..].iter().find(|byte| !byte.is_ascii_whitespace());
                if behind == Some(&b':') {
                    key = Some(start);
                    continue;
                }
                Some((key.take().unwrap_or(start), start))
            }
            byte if byte.is_ascii_alphanumeric() || *byte == b'-' => {
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                at += text[at..].iter().take_while(|byte| is_word(byte)).count();
                Some((key.take().unwrap_or(start), start))
            }
            _ => continue,
        };
        items.extend(value.map(|(whole, start)| Item {
            whole,
            value: start..at,
        }));
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = br#"{"a": [1, "b\"c", null], "d": {"e": -1.5e3}}"#;

    #[test]
    fn values_and_their_keys_are_found() {
        let items = items(TEXT);
        let texts = |range: Range<usize>| std::str::from_utf8(&TEXT[range]).unwrap();
        let values: Vec<&str> = items.iter().map(|item| texts(item.value.clone())).collect();
        let list = r#"[1, "b\"c", null]"#;
        let map = r#"{"e": -1.5e3}"#;
        assert_eq!(values[..6], ["1", r#""b\"c""#, "null", list, "-1.5e3", map]);
        let keys = items.iter().map(|item| texts(item.whole..item.value.start));
        assert_eq!(
            keys.collect::<Vec<_>>(),
            ["", "", "", "\"a\": ", "\"e\": ", "\"d\": ", ""]
        );
    }

    #[test]
    fn a_value_goes_with_its_comma() {
        for (index, left) in [(0, r#"["b",2]"#), (1, r#"[1,2]"#), (2, r#"[1,"b"]"#)] {
            let mut text = br#"[1,"b",2]"#.to_vec();
            let items = items(&text);
            remove(&mut text, &items[index]);
            assert_eq!(text, left.as_bytes());
        }
    }

    #[test]
    fn a_map_becomes_a_list() {
        let mut text = TEXT.to_vec();
        let items = items(&text);
        let all = 0..text.len();
        list(&mut text, &items, all);
        assert_eq!(text, br#"[[1, "b\"c", null],{"e": -1.5e3}]"#);
    }

    #[test]
    fn much_of_what_is_changed_is_json() {
        let mut whole = 0;
        for seed in 0..1000 {
            let mut text = TEXT.to_vec();
            change(&mut text, &mut Dice::new(seed));
            whole += usize::from(serde_json::from_slice::<serde_json::Value>(&text).is_ok());
            // What is broken is changed as well.
            change(&mut text, &mut Dice::new(seed));
        }
        assert!(whole > 300, "{whole} of 1000");
    }
}
