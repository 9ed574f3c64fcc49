//! Writes to standard output and standard error. In child processes, the module also sends messages to the parent
//! process.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The standard output of this program after [`redirect_stdout`]. Foreign code cannot write to this file.
static STDOUT: OnceLock<File> = OnceLock::new();

/// Whether this process has written its JSON output.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// Redirects standard output to standard error, for this process and its children. Without this, text that foreign code
/// prints would break the JSON output.
///
/// Call this function before any foreign code runs, and only if this process writes the JSON output itself.
pub(crate) fn redirect_stdout() -> Result<()> {
    let why = "cannot redirect the output of libraries";
    if STDOUT.get().is_none() {
        // Child processes do not inherit this copy of standard output.
        let own = std::io::stdout().as_fd().try_clone_to_owned();
        let own = File::from(own.context(why)?);
        STDOUT.get_or_init(|| own);
        rustix::stdio::dup2_stdout(std::io::stderr()).context(why)?;
    }
    Ok(())
}

/// The pipe from a child process to its parent. Each message is one line of JSON.
static PIPE: OnceLock<File> = OnceLock::new();

/// Opens the pipe on which a supervised child process sends messages to its parent.
pub(crate) fn connect(pipe: i32) -> std::io::Result<()> {
    let pipe = File::options()
        .write(true)
        .open(format!("/dev/fd/{pipe}"))?;
    drop(PIPE.set(pipe));
    Ok(())
}

/// Reports to the parent process which code runs next, for the name in errors. The time limit starts again.
pub(crate) fn enters(who: std::fmt::Arguments<'_>) {
    // An error means that the parent process has ended, so no process needs the message.
    let _ = say(|| json!({ "enters": who.to_string() }));
}

/// Reports to the parent process that a call runs next. During the call, `--time-limit` applies without the additional
/// time that [`enters`] allows.
pub(crate) fn calls(who: std::fmt::Arguments<'_>) {
    let _ = say(|| json!({ "calls": who.to_string() }));
}

/// Sends the JSON output to the parent process, which prints it if this process succeeds. Returns false if this process
/// is not a supervised child process.
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

/// Writes text that may contain names from a library or a file, with control characters escaped.
pub(crate) fn text(text: &str) -> Result<()> {
    commands(&printable(text))
}

/// Writes text unchanged, because a shell or a CI runner interprets it.
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

/// Writes the JSON output to standard output, or sends it to the parent process.
pub(crate) fn json(value: &Value) -> Result<()> {
    let own = "cannot write to the parent process; a library has closed its pipe";
    if answers(value).context(own)? {
        return Ok(());
    }
    ANSWERED.store(true, Ordering::Relaxed);
    text(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Writes a line to standard error, with control characters escaped.
pub(crate) fn message(text: std::fmt::Arguments<'_>) {
    // An error in writing this line, such as a full disk, must not change the exit status.
    let _ = writeln!(std::io::stderr(), "{}", printable(&text.to_string()));
}

/// Returns the JSON that describes a successful exit.
pub(crate) fn ok() -> Value {
    json!({ "code": 0, "kind": "ok" })
}

/// Writes JSON output that describes an error, if JSON is requested and the failed command has written no JSON output.
pub(crate) fn no_answer(wanted: Option<&str>, error: &anyhow::Error) {
    if let Some(schema) = wanted.filter(|_| !ANSWERED.load(Ordering::Relaxed)) {
        // If this write fails, the exit status still reports the error.
        let _ = json(&json!({
            "schema": schema,
            "exit": { "code": 1, "kind": "bad-input" },
            "error": error_text(error),
        }));
    }
}

/// Returns the text of an error and of its causes. A cause that the previous text already contains is omitted.
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

/// Escapes characters that a terminal or GitHub's runner would interpret: control characters, `::` at the start of a
/// line, and `##[`.
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
