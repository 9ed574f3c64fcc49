//! Words that WRITING's rules exclude do not come back: in the book, in documentation comments, and in texts that programs print.

use std::path::Path;
use std::process::Command;

/// Phrases that a plain sentence replaces. Each is searched for in lower case, between words.
const PHRASES: [&str; 20] = [
    "is told",
    "are told",
    "whom",
    "stands in",
    "stand in",
    "left away",
    "leaves away",
    "mended",
    "another than",
    "as ever",
    "for good",
    "says what",
    "says which",
    "says whether",
    "tells what",
    "tells whether",
    "of old",
    "where there is none",
    "in place of that",
    "goes for",
];

/// Returns true if a text contains a phrase as whole words.
fn contains(text: &str, phrase: &str) -> bool {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        !is_letter(text[..at].chars().next_back())
            && !is_letter(text[at + phrase.len()..].chars().next())
    })
}

/// Returns the broken rules of a line of prose.
fn broken(line: &str) -> Vec<&'static str> {
    let text = line.to_lowercase();
    let mut found: Vec<_> = PHRASES
        .into_iter()
        .filter(|phrase| contains(&text, phrase))
        .collect();
    let is_no = text
        .split(" is no ")
        .skip(1)
        .zip(text.split(" is no "))
        .any(|(after, before)| !before.ends_with("there") && !after.starts_with("longer"));
    if is_no {
        found.push("is no");
    }
    found
}

/// Returns the lines that people read in a file: all lines of a page, documentation comments of Rust.
fn prose(path: &Path, text: &str) -> Vec<(usize, String)> {
    let is_page = path.extension().is_some_and(|it| it == "md");
    let mut inside_code = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let comment = ["///", "//!"].iter().find_map(|mark| line.strip_prefix(mark));
        let line = if is_page { Some(line) } else { comment };
        let Some(line) = line else { continue };
        if line.trim_start().starts_with("```") {
            inside_code = !inside_code;
        } else if !inside_code {
            found.push((number + 1, line.to_owned()));
        }
    }
    found
}
