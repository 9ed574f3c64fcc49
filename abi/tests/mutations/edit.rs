//! Applies a single edit to the text of a header.

/// A single edit: its kind, such as `Text` or `Rename`, and the texts that the kind requires.
pub(crate) struct Edit {
    kind: &'static str,
    texts: Vec<String>,
}

impl Edit {
    /// Parses an edit from `KIND text ~ text`. In each text, `\n`, `\r` and `\t` are escape sequences, and `-` means an
    /// empty text.
    pub(crate) fn of(line: &'static str) -> Self {
        let (kind, texts) = line.split_once(' ').unwrap();
        let plain = |text: &str| match text {
            "-" => String::new(),
            text => text
                .replace("\\n", "\n")
                .replace("\\r", "\r")
                .replace("\\t", "\t"),
        };
        Self {
            kind,
            texts: texts.split(" ~ ").map(plain).collect(),
        }
    }
}

/// Normalises the text of a header: removes comments, puts each directive on a separate line, one blank between words,
/// and stars next to the type.
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

/// Returns the start and end of the text between the braces of a struct.
fn body(text: &str, name: &str) -> (usize, usize) {
    let open = text
        .find(&format!("struct {name} {{"))
        .unwrap_or_else(|| panic!("no struct {name}"));
    let start = open + text[open..].find('{').unwrap() + 1;
    let end = start + text[start..].find('}').unwrap();
    (start, end)
}

/// Returns the declarations in the struct `name`, without their semicolons.
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
    let texts: Vec<&str> = edit.texts.iter().map(String::as_str).collect();
    let edited = match (edit.kind, texts.as_slice()) {
        // Replaces the first occurrence of a text.
        ("Text", [from, to]) => {
            assert!(text.contains(from), "the header lacks {from:?}");
            text.replacen(from, to, 1)
        }
        ("Everywhere", [from, to]) => text.replace(from, to),
        // Replaces a name wherever it is a whole identifier.
        ("Rename", [from, to]) => {
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
        (kind, [name, rest @ ..]) => {
            let mut all = declarations(text, name);
            match (kind, rest) {
                ("Swap", [a, b]) => {
                    let (a, b) = (position(&all, a), position(&all, b));
                    all.swap(a, b);
                }
                ("Remove", [field]) => drop(all.remove(position(&all, field))),
                ("Before", [field, declaration]) => {
                    all.insert(position(&all, field), (*declaration).to_owned());
                }
                ("Append", [declaration]) => all.push((*declaration).to_owned()),
                ("Replace", [field, declaration]) => {
                    let at = position(&all, field);
                    all[at] = (*declaration).to_owned();
                }
                other => panic!("{other:?}"),
            }
            with_declarations(text, name, &all)
        }
        other => panic!("{other:?}"),
    };
    assert_ne!(edited, text, "the edit changes nothing");
    edited
}
