//! A word on what takes longer than two seconds, for whoever waits at a terminal: one line on standard error, which goes
//! before anything else is written.

use std::io::{IsTerminal, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long nothing is said.
const PATIENCE: Duration = Duration::from_secs(2);
/// The cursor goes back, the line is cleared.
const CLEAR: &str = "\r\u{1b}[K";
/// How often the line is written anew.
const BEAT: Duration = Duration::from_millis(500);

struct Waiting {
    /// Since when, where a command is at work.
    since: Option<Instant>,
    what: String,
    /// Whether the line stands there.
    shown: bool,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting {
    since: None,
    what: String::new(),
    shown: false,
});
static OVER: Condvar = Condvar::new();

fn waiting() -> MutexGuard<'static, Waiting> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is being done now. The first call begins the wait; without a terminal none does anything.
pub(crate) fn at(what: impl Into<String>) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let mut state = waiting();
    state.what = what.into();
    if state.since.is_none() {
        state.since = Some(Instant::now());
        drop(state);
        // Where there is no thread to be had, nothing is said.
        drop(
            std::thread::Builder::new()
                .name("progress".into())
                .spawn(tell),
        );
    }
}

/// The work is done: the line goes, so that answers stand where it stood.
pub(crate) fn done() {
    let mut state = waiting();
    if state.since.take().is_some() {
        if std::mem::take(&mut state.shown) {
            write(CLEAR);
        }
        OVER.notify_all();
    }
}

/// Clears what a process left that came to its end without a word.
pub(crate) fn clear() {
    if std::io::stderr().is_terminal() {
        write(CLEAR);
    }
}

fn tell() {
    let mut state = waiting();
    while let Some(since) = state.since {
        let waited = since.elapsed();
        let next = match waited.checked_sub(PATIENCE) {
            None => PATIENCE - waited,
            Some(_) => {
                let line = line(&state.what, waited);
                // The cursor goes back, the rest of the line is cleared.
                state.shown = write(&format!("\r{line}\u{1b}[K"));
                BEAT
            }
        };
        let timed = OVER.wait_timeout(state, next);
        state = timed.unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn write(text: &str) -> bool {
    std::io::stderr().write_all(text.as_bytes()).is_ok()
}

/// `libmine.so, 4 s`, in the width of a narrow terminal.
fn line(what: &str, waited: Duration) -> String {
    let what = crate::words::printable(what).replace(['\n', '\t'], " ");
    let mut short: String = what.chars().take(60).collect();
    if short.len() < what.len() {
        short.push('…');
    }
    format!("{short}, {} s", waited.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(line("liba.so", Duration::from_millis(2900)), "liba.so, 2 s");
        let long = line(&format!("a\n\u{1b}[2J{}", "b".repeat(100)), PATIENCE);
        assert!(!long.contains('\n') && !long.contains('\u{1b}'), "{long}");
        assert!(
            long.chars().count() < 70 && long.ends_with("…, 2 s"),
            "{long}"
        );
    }
}
