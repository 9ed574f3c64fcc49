//! Writes to standard output (a closed reader is not an error) and, in child processes, to the parent.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Standard output at the call of [`redirect_stdout`]; only this program writes to it.
static STDOUT: OnceLock<File> = OnceLock::new();

/// Whether the JSON output is written.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// Redirects standard output to standard error in this process and its children, so that foreign code cannot break
/// the JSON output.
///
/// Call this before any foreign code runs, and only if no child writes the output.
pub(crate) fn redirect_stdout() -> Result<()> {
    let why = "cannot redirect the output of libraries";
    if STDOUT.get().is_none() {
        // Children do not inherit the duplicate.
        let own = std::io::stdout().as_fd().try_clone_to_owned();
        let own = File::from(own.context(why)?);
        STDOUT.get_or_init(|| own);
        rustix::stdio::dup2_stdout(std::io::stderr()).context(why)?;
    }
    Ok(())
}

/// The pipe from a child to its parent, with one line of JSON per message.
static PIPE: OnceLock<File> = OnceLock::new();

/// Opens the pipe to the parent of a supervised child.
pub(crate) fn connect(pipe: i32) -> std::io::Result<()> {
    let pipe = File::options()
        .write(true)
        .open(format!("/dev/fd/{pipe}"))?;
    drop(PIPE.set(pipe));
    Ok(())
}

/// Reports the name of the code that runs next, for errors. The time limit starts again.
pub(crate) fn enters(who: std::fmt::Arguments<'_>) {
    // An error means that the parent has ended.
    let _ = say(|| json!({ "enters": who.to_string() }));
}

/// Reports a call like [`enters`]; `--time-limit` applies to it.
pub(crate) fn calls(who: std::fmt::Arguments<'_>) {
    let _ = say(|| json!({ "calls": who.to_string() }));
}

/// Sends the JSON output to the parent, which prints it if this process succeeds. Returns false if this process is not a
/// supervised child.
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

/// Writes text that may quote a library or a file.
pub(crate) fn text(text: &str) -> Result<()> {
    commands(&printable(text))
}

/// Writes text unchanged: for a shell, or the commands of a workflow.
pub(crate) fn commands(text: &str) -> Result<()> {
    let written = match STDOUT.get() {
        Some(mut own) => own.write_all(text.as_bytes()),
        None => std::io::stdout().write_all(text.as_bytes()),
    };
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// Writes the JSON output.
pub(crate) fn json(value: &Value) -> Result<()> {
    let own = "cannot write to the parent process; a library has closed its pipe";
    if answers(value).context(own)? {
        return Ok(());
    }
    ANSWERED.store(true, Ordering::Relaxed);
    text(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Writes a line to standard error, which may quote a library or a file.
pub(crate) fn message(text: std::fmt::Arguments<'_>) {
    // A full disk does not change the exit status.
    let _ = writeln!(std::io::stderr(), "{}", printable(&text.to_string()));
}

/// Returns the JSON of a successful exit.
pub(crate) fn ok() -> Value {
    json!({ "code": 0, "kind": "ok" })
}

/// Writes the JSON output of a command that failed before it wrote one, if JSON is requested.
pub(crate) fn no_answer(wanted: Option<&str>, error: &anyhow::Error) {
    if let Some(schema) = wanted.filter(|_| !ANSWERED.load(Ordering::Relaxed)) {
        // If standard output is closed, the exit status still reports the failure.
        let _ = json(&json!({
            "schema": schema,
            "exit": { "code": 1, "kind": "bad-input" },
            "error": error_text(error),
        }));
    }
}

/// Returns an error and its causes, without causes that the previous text contains.
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

/// Escapes text that a terminal or GitHub's runner would interpret: control characters, and `::` at the start of a
/// line.
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
