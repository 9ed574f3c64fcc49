//! Every claim of the chapters on C and C++ is run by a test: `tests/claims/c.txt` and `cpp.txt` have each sentence, item,
//! row and block of code of `docs/c.md` and `docs/cpp.md`, and below it what runs it. What is written anew or edited
//! there fails until its line here has a test; so does a test that goes.
//!
//! Below a claim, indented, one a line:
//!
//! - `FILE: NAME`: a function of a test, `fn NAME` in Rust, `def NAME` in Python; a handler of a `RUN` line in `tests/cpp`;
//!   a row of the matrix (`tests/jax/expected.txt`); in any other file a text that is there.
//! - `no claim: WHY`: it asks the reader to do something, or leads to what follows.

use std::collections::BTreeMap;
use std::path::Path;
use xla_ffi_testing::root;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The sentences of a paragraph. Code, and what stands in brackets, has no ends of sentences.
fn sentences(paragraph: &str) -> Vec<String> {
    let (mut found, mut start, mut in_code) = (vec![], 0, false);
    let bytes = paragraph.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'`' {
            in_code = !in_code;
        }
        let ends = matches!(byte, b'.' | b'!' | b'?') && bytes.get(at + 1) == Some(&b' ');
        let begins = bytes
            .get(at + 2)
            .is_some_and(|next| next.is_ascii_uppercase() || matches!(next, b'`' | b'*' | b'['));
        // The number of an item ends with a point, too.
        let before = bytes.get(start..at).unwrap_or_default();
        let is_number = before.iter().all(u8::is_ascii_digit);
        if ends && begins && !in_code && !is_number {
            found.push(paragraph[start..=at].to_owned());
            start = at + 2;
        }
    }
    found.push(paragraph[start..].to_owned());
    found
}

/// What a chapter says, piece by piece.
fn claims(chapter: &str) -> Vec<String> {
    let mut found = vec![];
    let mut paragraph = String::new();
    let mut lines = chapter.lines().peekable();
    while let Some(line) = lines.next() {
        let text = line.trim();
        let is_item = text.starts_with("* ")
            || text
                .split_once(". ")
                .is_some_and(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()));
        let apart = text.is_empty() || text.starts_with(['#', '|']) || text.starts_with("```");
        if (apart || is_item) && !paragraph.is_empty() {
            found.extend(sentences(&std::mem::take(&mut paragraph)));
        }
        if text.starts_with("```") {
            let first = lines.peek().copied().unwrap_or_default();
            found.push(format!("{text} {first}"));
            for line in lines.by_ref() {
                if line.starts_with("```") {
                    break;
                }
            }
        } else if text.starts_with('|') {
            let is_rule = |row: &str| row.bytes().all(|byte| b"|-: ".contains(&byte));
            let is_head = lines.peek().is_some_and(|next| next.starts_with("|-"));
            if !is_rule(text) && !is_head {
                found.push(text.to_owned());
            }
        } else if !apart {
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(text);
        }
    }
    if !paragraph.is_empty() {
        found.extend(sentences(&paragraph));
    }
    found
}

/// What is wrong with a line below a claim.
fn fault(line: &str) -> Option<String> {
    let Some((file, name)) = line.split_once(": ") else {
        return Some("neither FILE: NAME nor `no claim: WHY`".to_owned());
    };
    if file == "no claim" {
        return None;
    }
    let path = root().join(file);
    if !path.is_file() {
        return Some(format!("there is no file {file}"));
    }
    let text = read(&path);
    let is_there = match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => text.contains(&format!("fn {name}(")),
        Some("py") => text.contains(&format!("def {name}(")),
        Some("cc") if file.starts_with("tests/cpp/") => text
            .lines()
            .filter_map(|line| line.strip_prefix("// "))
            .filter_map(|line| line.split_once(' '))
            .filter(|(kind, _)| ["RUN", "RUN-OURS", "LAST", "TRAITS"].contains(kind))
            .any(|(_, case)| case.split([' ', ',']).next() == Some(name)),
        _ => text.contains(name),
    };
    (!is_there).then(|| format!("{file} has no {name}"))
}

/// Compares a chapter with its table; what is wrong comes back, one fault a line.
fn compare(chapter: &str, table: &str) -> Vec<String> {
    let mut wrong = vec![];
    let mut tests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut claim = None;
    let lines = table.lines().filter(|line| !line.trim().is_empty());
    for line in lines {
        match (line.strip_prefix("    "), claim) {
            (Some(test), Some(claim)) => tests.entry(claim).or_default().push(test),
            (Some(test), None) => wrong.push(format!("below no claim: {test}")),
            (None, _) => {
                claim = Some(line);
                tests.entry(line).or_default();
            }
        }
    }
    let said = claims(chapter);
    for claim in &said {
        match tests.get(claim.as_str()) {
            None => wrong.push(format!("no test is named for: {claim}")),
            Some(named) if named.is_empty() => {
                wrong.push(format!("no test stands below: {claim}"));
            }
            Some(named) => wrong.extend(named.iter().filter_map(|line| fault(line))),
        }
    }
    let gone = tests
        .keys()
        .filter(|claim| !said.iter().any(|now| now == *claim));
    wrong.extend(gone.map(|claim| format!("the chapter no longer says: {claim}")));
    wrong
}

#[test]
fn every_claim_has_a_test() {
    let mut wrong = vec![];
    for name in ["c", "cpp"] {
        let chapter = read(&root().join(format!("docs/{name}.md")));
        let table = read(&root().join(format!("tests/claims/{name}.txt")));
        assert!(
            claims(&chapter).len() > 60,
            "{name}: {}",
            claims(&chapter).len()
        );
        let found = compare(&chapter, &table);
        wrong.extend(
            found
                .into_iter()
                .map(|fault| format!("docs/{name}.md: {fault}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_has_no_test_is_told() {
    let chapter = "# C\n\nOne thing. Another.\n\n| a | b |\n|---|---|\n| c | d |\n\n```c\nint x;\n```\n\n* An item.\n";
    let table = "One thing.\n    tests/claims.rs: every_claim_has_a_test\nAnother.\n    no claim: it is none\n\
        | c | d |\n    tests/claims.rs: every_claim_has_a_test\n```c int x;\n    docs/c.md: Custom calls\n\
        * An item.\n    tests/cpp/operands.cc: in_out\n";
    assert_eq!(compare(chapter, table), Vec::<String>::new());
    for (from, to, told) in [
        ("Another.", "Other.", "no test is named for: Another."),
        (
            "    no claim: it is none\n",
            "",
            "no test stands below: Another.",
        ),
        (
            "every_claim_has_a_test",
            "nobody",
            "tests/claims.rs has no nobody",
        ),
        ("in_out", "nobody", "tests/cpp/operands.cc has no nobody"),
        (
            "operands.cc",
            "operants.cc",
            "there is no file tests/cpp/operants.cc",
        ),
        (
            "| c | d |",
            "| c | e |",
            "the chapter no longer says: | c | e |",
        ),
    ] {
        let found = compare(chapter, &table.replacen(from, to, 1));
        assert!(found.iter().any(|fault| fault == told), "{from}: {found:?}");
    }
}
