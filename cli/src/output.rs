//! Writes to standard output, where a reader that has gone away is no error, and as a child process to its parent.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Standard output as it was when [`redirect_stdout`] was called: this program's alone.
static STDOUT: OnceLock<File> = OnceLock::new();

/// Whether an answer for programs has been written: there is one.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// From here on only this program writes to standard output: what foreign code prints there, in this process and in those
/// that it makes, goes to standard error. An answer for programs is one document, whatever a library says while it is
/// loaded or called. Call it before any foreign code runs, and where no child is to write the answer in this one's place.
pub(crate) fn redirect_stdout() -> Result<()> {
    let why = "keeping the answer apart from what libraries print";
    if STDOUT.get().is_none() {
        // A duplicate that no program started from here inherits.
        let own = std::io::stdout().as_fd().try_clone_to_owned();
        let own = File::from(own.context(why)?);
        STDOUT.get_or_init(|| own);
        rustix::stdio::dup2_stdout(std::io::stderr()).context(why)?;
    }
    Ok(())
}

/// Where a child writes to its parent, a line of JSON each.
static PIPE: OnceLock<File> = OnceLock::new();

/// Opens the pipe to the parent of a supervised child.
pub(crate) fn connect(pipe: i32) -> std::io::Result<()> {
    let pipe = File::options()
        .write(true)
        .open(format!("/dev/fd/{pipe}"))?;
    drop(PIPE.set(pipe));
    Ok(())
}

/// Says whose code runs from here on: an error begins with it. The time limit begins again.
pub(crate) fn enters(who: std::fmt::Arguments<'_>) {
    // A parent that is gone has no use for it.
    let _ = say(|| json!({ "enters": who.to_string() }));
}

/// As [`enters`], for a call: what `--time-limit` limits.
pub(crate) fn calls(who: std::fmt::Arguments<'_>) {
    let _ = say(|| json!({ "calls": who.to_string() }));
}

/// Gives the answer for programs to the parent, which prints it when this process has ended well. Returns false if this
/// process is not a supervised child.
fn answers(answer: &Value) -> std::io::Result<bool> {
    say(|| json!({ "answer": answer }))
}

pub(crate) fn say(line: impl FnOnce() -> Value) -> std::io::Result<bool> {
    let Some(mut pipe) = PIPE.get() else {
        return Ok(false);
    };
    pipe.write_all(format!("{}\n", line()).as_bytes())?;
    Ok(true)
}

/// Writes a text for people, which may quote a library or a file.
pub(crate) fn text(text: &str) -> Result<()> {
    commands(&printable(text))
}

/// Writes a text as it is: for a shell, or the commands of a workflow.
pub(crate) fn commands(text: &str) -> Result<()> {
    let written = match STDOUT.get() {
        Some(mut own) => own.write_all(text.as_bytes()),
        None => std::io::stdout().write_all(text.as_bytes()),
    };
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output"),
    }
}

/// Writes an answer for programs.
pub(crate) fn json(value: &Value) -> Result<()> {
    let own = "the pipe to this program's first process, which foreign code has closed";
    if answers(value).context(own)? {
        return Ok(());
    }
    ANSWERED.store(true, Ordering::Relaxed);
    text(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Writes a line to standard error, which may quote a library or a file.
pub(crate) fn tell(text: std::fmt::Arguments<'_>) {
    eprintln!("{}", printable(&text.to_string()));
}

/// How a command that has nothing to judge ended, for programs.
pub(crate) fn ok() -> Value {
    json!({ "code": 0, "kind": "ok" })
}

/// Where a command ends with an error before there is an answer for programs, and one is wanted, in this form: this one.
pub(crate) fn no_answer(wanted: Option<&str>, error: &anyhow::Error) {
    if let Some(schema) = wanted.filter(|_| !ANSWERED.load(Ordering::Relaxed)) {
        // Whoever closed standard output reads the exit status.
        let _ = json(&json!({
            "schema": schema,
            "exit": { "code": 1, "kind": "bad-input" },
            "error": error_text(error),
        }));
    }
}

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

/// A text in which a terminal and GitHub's runner find nothing to obey: without control characters, and without `::` at
/// the start of a line.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let words = line.trim_start();
        shown.push_str(&line[..line.len() - words.len()]);
        let words = match words.strip_prefix("::") {
            Some(rest) => format!("\\u{{3a}}:{rest}"),
            None => words.replace("##[", "#\\u{23}["),
        };
        for letter in words.chars() {
            match letter {
                '\n' | '\t' => shown.push(letter),
                _ if letter.is_control() => shown.extend(letter.escape_default()),
                _ => shown.push(letter),
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn neither_terminals_nor_workflows_are_commanded() {
        for (text, shown) in [
            ("a\n\tb ü: std::string\n", "a\n\tb ü: std::string\n"),
            ("\x1b[31m\r", "\\u{1b}[31m\\r"),
            ("a\n  ::error::b", "a\n  \\u{3a}:error::b"),
            ("##[error]b", "#\\u{23}[error]b"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
