//! Words for people: what a terminal obeys is made visible, and errors are told with their causes.

/// A text with what a terminal or the runner of a workflow would obey made visible.
pub(crate) fn printable(text: &str) -> String {
    let shown = visible(text).replace("##[", "#\\u{23}[");
    let lines = shown.split_inclusive('\n').map(|line| {
        let behind = line.trim_start();
        let blanks = &line[..line.len() - behind.len()];
        // GitHub's runner looks for its commands in every line that a step writes, to standard error too.
        match behind.strip_prefix("::") {
            Some(rest) => format!("{blanks}\\u{{3a}}:{rest}"),
            None => line.to_owned(),
        }
    });
    lines.collect()
}

/// A name, or what else is one line: a break in it would begin a line that reads as ours.
pub(crate) fn one_line(text: &str) -> String {
    let text = text.replace('\n', "\\n").replace('\t', "\\t");
    visible(&text)
}

/// The path of a file, on one line.
pub(crate) fn shown(path: &std::path::Path) -> String {
    one_line(&path.display().to_string())
}

/// A text with what a terminal would obey made visible.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            // These turn the order of the letters around, as far as they are obeyed.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.extend(letter.escape_default())
            }
            _ if letter.is_control() => shown.extend(letter.escape_default()),
            _ => shown.push(letter),
        }
    }
    shown
}

/// Writes a line to standard error. Where nobody reads that, the exit status says what there is to say; `eprintln!` would
/// panic.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        drop(writeln!(std::io::stderr(), $($text)*))
    }};
}
pub(crate) use tell;

/// An error and its causes; a cause whose text stands in the one before it is not said twice.
pub(crate) fn error_text(error: &anyhow::Error) -> String {
    let mut texts: Vec<String> = vec![];
    for cause in error.chain() {
        let text = cause.to_string();
        if texts.last().is_none_or(|last| !last.contains(&text)) {
            texts.push(text);
        }
    }
    printable(&texts.join(": "))
}

#[cfg(test)]
mod tests {
    use super::{error_text, one_line, printable};

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        assert_eq!(printable("a\n\tb ü ש"), "a\n\tb ü ש");
        assert_eq!(printable("\x1b[31m\r\u{9b}"), "\\u{1b}[31m\\r\\u{9b}");
        assert_eq!(
            printable("ok \u{202e}liaf\u{2069}"),
            "ok \\u{202e}liaf\\u{2069}"
        );
    }

    #[test]
    fn runners_of_workflows_obey_nothing() {
        assert_eq!(
            printable("a\n::error::b\n  ::set-env::c"),
            "a\n\\u{3a}:error::b\n  \\u{3a}:set-env::c"
        );
        assert_eq!(printable("a ##[error]b"), "a #\\u{23}[error]b");
        assert_eq!(printable("std::string\n\n: :\n"), "std::string\n\n: :\n");
        let twice = printable(&printable("::a ##[b]"));
        assert_eq!(twice, printable("::a ##[b]"));
    }

    #[test]
    fn a_name_is_one_line() {
        assert_eq!(one_line("a\n\tb\rc"), "a\\n\\tb\\rc");
    }

    #[test]
    fn terminals_obey_no_error() {
        let error = anyhow::anyhow!("a\u{1b}[31mb\n\tc\0d é");
        assert_eq!(error_text(&error), "a\\u{1b}[31mb\n\tc\\u{0}d é");
    }
}
