//! What a supervised child says to its parent, a line each: whose code it enters next, its answer or its error, and the
//! status with which it ends by itself.

use anyhow::bail;
use serde_json::Value;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What a child says instead of whose code it enters where its answer for programs comes, in JSON.
const ANSWER: &str = "\u{1}answer ";
/// The same of the error that it ends with, a string in JSON.
const ERROR: &str = "\u{1}error ";
/// What a child says before whose code it enters where that is a call, which may take the time limit and no more.
const CALL: &str = "\u{1}call ";
/// What a child says with the status that it is about to end with, by itself.
const ENDS: &str = "\u{1}ends ";

/// Bytes of a line at most; ours are shorter.
const LONGEST: usize = 1 << 20;
/// Bytes of an error that are told.
const ERROR_BYTES: usize = 1 << 16;

/// Where a child says it.
static PIPE: OnceLock<File> = OnceLock::new();

/// Whose code runs in a child, and whose closed its standard output.
static WHO: Mutex<Who> = Mutex::new(Who {
    runs: String::new(),
    closed: None,
});

struct Who {
    runs: String,
    closed: Option<String>,
}

/// In the child: this is the pipe.
pub(crate) fn open(descriptor: i32) {
    let path = format!("/dev/fd/{descriptor}");
    if let Ok(pipe) = File::options().write(true).open(path) {
        PIPE.get_or_init(|| pipe);
    }
}

/// Says whose code runs from here on: what the error begins with if it goes wrong. The time limit begins anew.
pub(crate) fn enters(who: std::fmt::Arguments<'_>) {
    goes_to("", who);
}

/// As [`enters`], for a call: what `--time-limit` limits.
pub(crate) fn calls(who: std::fmt::Arguments<'_>) {
    goes_to(CALL, who);
}

/// A call that has begun, and what it may take.
pub(crate) struct Begun<'a> {
    who: &'a str,
    limit: Duration,
    at: Instant,
}

/// As [`calls`], for a call whose time is looked at where it has come back.
pub(crate) fn begins(who: &str, limit: Duration) -> Begun<'_> {
    calls(format_args!("{who}"));
    let at = Instant::now();
    Begun { who, limit, at }
}

impl Begun<'_> {
    /// The call has come back: an error where that was too late.
    pub(crate) fn ends(self) -> anyhow::Result<()> {
        within(self.who, self.limit, self.at.elapsed())
    }
}

/// An error where a call has come back too late, and the parent did not stop it. In a process that nobody supervises a
/// debugger may have held it up.
pub(crate) fn within(who: &str, limit: Duration, took: Duration) -> anyhow::Result<()> {
    if PIPE.get().is_some() && took > limit {
        bail!(
            "{who} returned after {:.1} s, and not within {limit:?}; --time-limit sets how long a call may take",
            took.as_secs_f64()
        );
    }
    Ok(())
}

fn goes_to(what: &str, who: std::fmt::Arguments<'_>) {
    if PIPE.get().is_some() {
        let who = who.to_string();
        // A parent that is gone has no use for it.
        let _ = say(what, &who);
        let mut known = WHO.lock().unwrap_or_else(PoisonError::into_inner);
        known.look();
        known.runs = who;
    }
}

impl Who {
    /// Whoever has run since the last look has closed what is closed now.
    fn look(&mut self) {
        let closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err();
        if closed && self.closed.is_none() {
            self.closed = Some(self.runs.clone());
        }
    }
}

/// Who has closed the standard output of this child, if anybody.
pub(crate) fn closer() -> Option<String> {
    let mut known = WHO.lock().unwrap_or_else(PoisonError::into_inner);
    known.look();
    known.closed.clone()
}

/// Gives the answer for programs to the parent, who writes it when this process has ended well; whether this is a child.
pub(crate) fn answers(answer: &Value) -> std::io::Result<bool> {
    if PIPE.get().is_none() {
        return Ok(false);
    }
    say(ANSWER, &answer.to_string()).map(|()| true)
}

/// Gives the error with which this process ends to the parent, who tells it.
pub(crate) fn fails(error: &str) -> std::io::Result<()> {
    let end = (0..=error.len().min(ERROR_BYTES)).rev();
    let end = end.into_iter().find(|at| error.is_char_boundary(*at));
    let (told, rest) = error.split_at(end.unwrap_or(0));
    let more = if rest.is_empty() { "" } else { " …" };
    say(ERROR, &Value::String(format!("{told}{more}")).to_string())
}

/// Says with which status this process ends by itself: handlers end processes with any.
pub(crate) fn ends(code: u8) -> std::io::Result<()> {
    say(ENDS, &code.to_string())
}

fn say(what: &str, text: &str) -> std::io::Result<()> {
    match PIPE.get() {
        Some(mut pipe) => pipe.write_all(format!("{what}{}\n", text.replace('\n', " ")).as_bytes()),
        None => Err(ErrorKind::NotConnected.into()),
    }
}

/// What a child has said so far.
pub(crate) struct Said {
    pipe: File,
    /// A line whose end has not come.
    begun: Vec<u8>,
    /// Whose code it said that it enters, last.
    pub(crate) who: String,
    /// Whether that is a call.
    pub(crate) is_call: bool,
    /// Its answer for programs.
    pub(crate) answer: Option<Value>,
    /// The error that it ends with.
    pub(crate) error: Option<String>,
    /// The status with which it said that it ends.
    pub(crate) ends: Option<u8>,
}

impl Said {
    /// A pipe, its end for the child first, which a program that is started from here inherits.
    pub(crate) fn new() -> rustix::io::Result<(OwnedFd, Self)> {
        let (read, write) = rustix::pipe::pipe()?;
        rustix::io::fcntl_setfd(&read, rustix::io::FdFlags::CLOEXEC)?;
        // What a handler started may hold the other end open: what is there now is all that is waited for.
        rustix::io::ioctl_fionbio(&read, true)?;
        let said = Self {
            pipe: File::from(read),
            begun: vec![],
            who: "xla-ffi itself".into(),
            is_call: false,
            answer: None,
            error: None,
            ends: None,
        };
        Ok((write, said))
    }

    /// Reads what is there, so that a child that says much is not held up; whether it entered anything.
    pub(crate) fn read(&mut self) -> bool {
        let mut entered = false;
        let mut bytes = [0; 4096];
        // As much as a pipe holds: a handler may write there without an end, and the clock is looked at between.
        for _ in 0..16 {
            match self.pipe.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => self.begun.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            if self.begun.len() > LONGEST {
                self.begun.clear();
            }
            while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.begun.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line[..end]);
                if let Some(answer) = line.strip_prefix(ANSWER) {
                    self.answer = serde_json::from_str(answer).ok();
                } else if let Some(error) = line.strip_prefix(ERROR) {
                    self.error = serde_json::from_str(error).ok();
                } else if let Some(code) = line.strip_prefix(ENDS) {
                    self.ends = code.parse().ok();
                } else {
                    let call = line.strip_prefix(CALL);
                    self.is_call = call.is_some();
                    self.who = call.unwrap_or(&line).to_owned();
                    entered = true;
                }
            }
        }
        entered
    }
}
