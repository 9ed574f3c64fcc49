//! Checks that pages, comments and messages do not contain certain phrases.

use std::path::Path;
use std::process::Command;

/// Phrases to replace by plain words, in lower case. Only whole words match.
const PHRASES: [&str; 18] = [
    "another than",
    "are told",
    "as ever",
    "be told",
    "for good",
    "is told",
    "leaves away",
    "left away",
    "lies at",
    "mended",
    "says what",
    "says whether",
    "says which",
    "stands in",
    "tells what",
    "tells whether",
    "where there is none",
    "whom",
];

/// Returns true if a text contains a phrase as whole words.
fn has(text: &str, phrase: &str) -> bool {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        !is_letter(text[..at].chars().next_back())
            && !is_letter(text[at + phrase.len()..].chars().next())
    })
}

/// Returns true if a text contains "is no", other than "there is no" and "is no longer".
fn has_is_no(text: &str) -> bool {
    text.match_indices(" is no ").any(|(at, phrase)| {
        !text[..at].ends_with("there") && !text[at + phrase.len()..].starts_with("longer")
    })
}

/// Returns the problems of a file, each with its line.
fn problems(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let lower = line.to_lowercase();
        let phrases = PHRASES.into_iter().filter(|phrase| has(&lower, phrase));
        let is_no = has_is_no(&lower).then_some("is no");
        let doc = line.strip_prefix("/// ").or(line.strip_prefix("//! "));
        let is_first = at == 0 || !lines[at - 1].starts_with("//");
        let start = doc.filter(|_| is_first).and_then(|doc| {
            let item = lines[at..]
                .iter()
                .find(|line| !line.starts_with(['/', '#']))?;
            let is_field = !item.contains("fn ");
            (doc.starts_with("What ") || (doc.starts_with("Whether ") && !is_field))
                .then_some("a doc comment that starts with What or Whether")
        });
        let all = phrases.chain(is_no).chain(start);
        found.extend(all.map(|what| format!("{path}:{}: {what}: {line}", at + 1)));
    }
    found
}

#[test]
fn texts_use_plain_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let endings = ["md", "rs", "py", "h", "c", "cc", "cu"].map(|ending| format!("*.{ending}"));
    let listed = Command::new("git")
        .arg("ls-files")
        .args(endings)
        .current_dir(root)
        .output()
        .unwrap();
    let mut found = Vec::new();
    for path in String::from_utf8(listed.stdout).unwrap().lines() {
        if path != "CHANGELOG.md" && path != "tests/book/wording.rs" {
            let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
            found.extend(problems(path, &text));
        }
    }
    assert!(
        found.is_empty(),
        "{} lines:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn phrases_are_found() {
    for (text, expected) in [
        ("/// Whether it is.\nfn f() {}", 1),
        ("/// Whether it is.\nis: bool,", 0),
        ("It is no loop, whom it concerns.", 2),
        ("There is no loop. It is no longer.", 0),
        ("/// It is told.", 1),
    ] {
        assert_eq!(problems("text", text).len(), expected, "{text}");
    }
}
