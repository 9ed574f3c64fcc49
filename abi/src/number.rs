//! Finds the macros that stand for a number. libclang evaluates those; any other macro would be a parse error.

use std::collections::{BTreeMap, BTreeSet};

/// The text with each directive on one line, and without comments.
pub(crate) fn in_one_line(text: &str) -> String {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('/') {
        let (before, comment) = rest.split_at(at);
        out.push_str(before);
        let (end, kept) = match comment.as_bytes().get(1) {
            Some(b'/') => (comment.find('\n').unwrap_or(comment.len()), ' '),
            Some(b'*') => {
                let end = comment[2..].find("*/").map(|end| end + 4);
                (end.unwrap_or(comment.len()), ' ')
            }
            _ => (1, '/'),
        };
        out.push(kept);
        rest = &comment[end..];
    }
    out + rest
}

/// The macros without parameters of a text, by name: what stands behind the name, in one line, each way it is defined.
pub(crate) fn macros(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines() {
        let rest = line.trim_start().strip_prefix('#').map(str::trim_start);
        let Some(rest) = rest.and_then(|rest| rest.strip_prefix("define")) else {
            continue;
        };
        let rest = rest.trim_start();
        let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let (name, value) = rest.split_at(end);
        if !name.is_empty() && !value.starts_with('(') {
            found.entry(name).or_default().push(value.trim());
        }
    }
    found
}

/// Those that are a number however they are defined: one, or what is computed of some.
pub(crate) fn numbers<'a>(macros: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let mut known = BTreeSet::new();
    // One may stand for another, which stands behind it.
    loop {
        let is_number = |value: &&'a str| is_expression(value, &known);
        let more = macros.iter().filter(|(name, values)| {
            !known.contains(*name) && !values.is_empty() && values.iter().all(&is_number)
        });
        let more: Vec<&str> = more.map(|(name, _)| *name).collect();
        if more.is_empty() {
            return known;
        }
        known.extend(more);
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// What integers are called, in one word each.
const TYPES: [&str; 22] = [
    "bool",
    "char",
    "short",
    "int",
    "long",
    "signed",
    "unsigned",
    "size_t",
    "ptrdiff_t",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "intptr_t",
    "uintptr_t",
    "const",
    "_Bool",
    "std::size_t",
];

const OPERATORS: [&str; 21] = [
    "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+", "-", "*", "/", "%", "&", "|", "^", "<",
    ">", "?", ":", "=",
];

/// Whether a text is an expression of whole numbers, as far as one sees without knowing what its names are.
fn is_expression(text: &str, known: &BTreeSet<&str>) -> bool {
    let Some(tokens) = tokens(text) else {
        return false;
    };
    let is_type = |token: &&str| TYPES.contains(token);
    let (mut at, mut depth, mut questions) = (0, 0_usize, 0_usize);
    let mut wants_operand = true;
    while let Some(token) = tokens.get(at).copied() {
        at += 1;
        if wants_operand {
            match token {
                "+" | "-" | "~" | "!" => {}
                "(" | "sizeof" => {
                    let is_size = token == "sizeof";
                    if is_size {
                        match tokens.get(at) {
                            Some(&"(") => at += 1,
                            _ => return false,
                        }
                    }
                    let words = tokens[at..].iter().take_while(|one| is_type(one)).count();
                    let is_closed = tokens.get(at + words) == Some(&")");
                    match (words, is_size) {
                        // A cast: its operand follows.
                        (1.., false) if is_closed => at += words + 1,
                        (1.., true) if is_closed => {
                            at += words + 1;
                            wants_operand = false;
                        }
                        (0, false) => depth += 1,
                        _ => return false,
                    }
                }
                _ if is_literal(token) || known.contains(token) => wants_operand = false,
                _ => return false,
            }
        } else {
            match token {
                ")" if depth > 0 => depth -= 1,
                "?" => {
                    questions += 1;
                    wants_operand = true;
                }
                ":" if questions > 0 => {
                    questions -= 1;
                    wants_operand = true;
                }
                "=" | ":" => return false,
                _ if OPERATORS.contains(&token) => wants_operand = true,
                _ => return false,
            }
        }
    }
    !wants_operand && depth == 0 && questions == 0
}

/// A whole number, a character, or `true`.
fn is_literal(token: &str) -> bool {
    if token == "true" || token == "false" || token.starts_with('\'') {
        return true;
    }
    let lower = token.to_ascii_lowercase();
    let digits = lower.trim_end_matches(['u', 'l']);
    let in_base = |digits: &str, base| {
        let digits = digits.replace('\'', "");
        !digits.is_empty() && digits.chars().all(|c| c.is_digit(base))
    };
    match (digits.strip_prefix("0x"), digits.strip_prefix("0b")) {
        (Some(hex), _) => in_base(hex, 16),
        (_, Some(bits)) => in_base(bits, 2),
        _ => in_base(digits, 10),
    }
}

/// The words and signs of an expression; `None` where something stands there that no number has.
fn tokens(text: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first == '\'' {
            let escaped = rest[1..].starts_with('\\');
            let from = if escaped { 3 } else { 2 };
            from + rest.get(from..)?.find('\'')? + 1
        } else if first.is_ascii_digit() {
            let is_part = |c: char| is_word(c) || c == '\'' || c == '.';
            rest.find(|c| !is_part(c)).unwrap_or(rest.len())
        } else if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if matches!(first, '(' | ')' | '~' | '!') && !rest.starts_with("!=") {
            1
        } else {
            let mut known = OPERATORS.iter();
            known.find(|one| rest.starts_with(**one))?.len()
        };
        let (token, behind) = rest.split_at(length);
        found.push(token);
        rest = behind.trim_start();
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_whole_numbers_are_told_from_all_else() {
        let known = BTreeSet::from(["A"]);
        for text in [
            "1",
            "0x10UL",
            "(1 << 3)",
            "(0x1|0x2)",
            "'A'",
            "'\\n'",
            "((uint32_t)3)",
            "-1",
            "~0u",
            "A",
            "(A | 2)",
            "1 ? 2 : 3",
            "sizeof(int) * 2",
            "(unsigned long)1 << 40",
            "1'000",
            "(int)(A)",
            "!A",
            "1 != 2",
            "true",
            "((1))",
            "'\\''",
        ] {
            assert!(is_expression(text, &known), "{text}");
        }
        for text in [
            "",
            "B",
            "1.5",
            "1e5",
            "1f",
            "(1",
            "1)",
            "<< 3",
            "1 +",
            "1 2",
            "(1, 2)",
            "{1}",
            "\"a\"",
            "(char*)0",
            "((void*)0)",
            "int",
            "(int)",
            "sizeof(B)",
            "f(1)",
            "1; 2",
            "a = 1",
            "1 : 2",
            "1 ? 2",
            "XLA_FFI_TypeId{0}",
            "'",
            "'a",
            "()",
            "ä",
            "sizeof",
            "0x",
            "1 = 2",
        ] {
            assert!(!is_expression(text, &known), "{text}");
        }
    }

    #[test]
    fn a_macro_is_a_number_where_all_that_it_stands_for_is() {
        let text = "#define A (B | 1)\n # define B C\n#define C\t2\n#define D(x) 1\n#define E\n#define F F\n\
                    #ifdef X\n#define G 1\n#else\n#define G int\n#endif\n#define H 3";
        let macros = macros(text);
        let found = numbers(&macros).into_iter().collect::<Vec<_>>();
        assert_eq!(found, ["A", "B", "C", "H"]);
    }
}
