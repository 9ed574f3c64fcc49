//! Words for people: what a terminal obeys is made visible, and errors are told with their causes.

/// A text with what a terminal would obey made visible.
pub(crate) fn printable(text: &str) -> String {
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
    printable(&crate::advice::for_command_line(&texts.join(": ")))
}

#[cfg(test)]
mod tests {
    use super::{error_text, printable};

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
    fn terminals_obey_no_error() {
        let error = anyhow::anyhow!("a\u{1b}[31mb\n\tc\0d é");
        assert_eq!(error_text(&error), "a\\u{1b}[31mb\n\tc\\u{0}d é");
    }
}
