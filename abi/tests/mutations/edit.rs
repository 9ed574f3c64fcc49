//! Single edits to the text of a header.

use Edit::{Append, Before, Everywhere, Remove, Rename, Replace, Swap, Text};

/// A single edit.
pub(crate) enum Edit {
    /// The first of two texts becomes the second, once.
    Text(&'static str, &'static str),
    /// All of them.
    Everywhere(&'static str, &'static str),
    /// A name, wherever it stands alone.
    Rename(&'static str, &'static str),
    /// Two fields of a struct change places.
    Swap(&'static str, &'static str, &'static str),
    /// A field goes.
    Remove(&'static str, &'static str),
    /// A declaration comes before a field.
    Before(&'static str, &'static str, &'static str),
    /// A declaration comes behind all fields.
    Append(&'static str, &'static str),
    /// A field's declaration becomes another.
    Replace(&'static str, &'static str, &'static str),
}

/// Comments gone, one blank between words, stars at the type, directives on their own lines.
pub(crate) fn normal(text: &str) -> String {
    let mut plain = String::new();
    for line in text.lines() {
        plain.push_str(line.split("//").next().unwrap_or_default());
        plain.push('\n');
    }
    while let Some(start) = plain.find("/*") {
        let end = plain[start..]
            .find("*/")
            .map_or(plain.len(), |at| start + at + 2);
        plain.replace_range(start..end, " ");
    }
    let mut out = String::new();
    let mut directive = false;
    for line in plain.lines() {
        if directive || line.trim_start().starts_with('#') {
            if !directive {
                out.push('\n');
            }
            directive = line.trim_end().ends_with('\\');
            out.push_str(line.trim());
            out.push('\n');
        } else {
            for word in line.split_whitespace() {
                out.push_str(word);
                out.push(' ');
            }
        }
    }
    let mut spaced = String::new();
    let mut before = ' ';
    let tight = out.replace(" *", "*");
    let mut chars = tight.chars().peekable();
    while let Some(c) = chars.next() {
        spaced.push(c);
        let opens = before == '(' || before == '/';
        if c == '*' {
            if let Some(next) = chars.peek()
                && (next.is_alphabetic() || *next == '(')
                && !opens
            {
                spaced.push(' ');
            }
        } else {
            before = c;
        }
    }
    spaced.replace("( ", "(")
}

/// The text between the braces of a struct.
fn body(text: &str, name: &str) -> (usize, usize) {
    let open = text
        .find(&format!("struct {name} {{"))
        .unwrap_or_else(|| panic!("no struct {name}"));
    let start = open + text[open..].find('{').unwrap() + 1;
    let end = start + text[start..].find('}').unwrap();
    (start, end)
}

/// The declarations of a struct, each without its semicolon.
fn declarations(text: &str, name: &str) -> Vec<String> {
    let (start, end) = body(text, name);
    text[start..end]
        .split(';')
        .map(|declaration| declaration.trim().to_owned())
        .filter(|declaration| !declaration.is_empty())
        .collect()
}

fn with_declarations(text: &str, name: &str, declarations: &[String]) -> String {
    let (start, end) = body(text, name);
    let inner: String = declarations
        .iter()
        .map(|declaration| format!(" {declaration};"))
        .collect();
    format!("{}{inner} {}", &text[..start], &text[end..])
}

fn position(declarations: &[String], field: &str) -> usize {
    declarations
        .iter()
        .position(|declaration| {
            declaration.ends_with(&format!(" {field}"))
                || declaration.ends_with(&format!("({field})"))
                || declaration.contains(&format!("(*{field})("))
        })
        .unwrap_or_else(|| panic!("no field {field} in {declarations:#?}"))
}

pub(crate) fn apply(edit: &Edit, text: &str) -> String {
    let edited = match edit {
        Text(from, to) => {
            assert!(text.contains(from), "the header lacks {from:?}");
            text.replacen(from, to, 1)
        }
        Everywhere(from, to) => text.replace(from, to),
        Rename(from, to) => {
            let mut out = String::new();
            let mut word = String::new();
            for c in text.chars().chain(['\n']) {
                if c.is_ascii_alphanumeric() || c == '_' {
                    word.push(c);
                } else {
                    out.push_str(if word == *from { to } else { &word });
                    word.clear();
                    out.push(c);
                }
            }
            out
        }
        Swap(name, a, b) => {
            let mut all = declarations(text, name);
            let (a, b) = (position(&all, a), position(&all, b));
            all.swap(a, b);
            with_declarations(text, name, &all)
        }
        Remove(name, field) => {
            let mut all = declarations(text, name);
            all.remove(position(&all, field));
            with_declarations(text, name, &all)
        }
        Before(name, field, declaration) => {
            let mut all = declarations(text, name);
            all.insert(position(&all, field), (*declaration).to_owned());
            with_declarations(text, name, &all)
        }
        Append(name, declaration) => {
            let mut all = declarations(text, name);
            all.push((*declaration).to_owned());
            with_declarations(text, name, &all)
        }
        Replace(name, field, declaration) => {
            let mut all = declarations(text, name);
            let at = position(&all, field);
            all[at] = (*declaration).to_owned();
            with_declarations(text, name, &all)
        }
    };
    assert_ne!(edited, text, "the edit changes nothing");
    edited
}
