//! What a supervised child says to its parent, a line each: whose code it enters next, that it writes its answer, and the
//! status with which it ends by itself.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// What a child says instead of whose code it enters where it writes its answer.
const ANSWER: &str = "\u{1}answer";
/// What a child says with the status that it is about to end with, by itself.
const ENDS: &str = "\u{1}ends ";

/// Bytes of a line at most; ours are much shorter.
const LONGEST: usize = 1 << 16;

/// Where a child says it.
static PIPE: OnceLock<File> = OnceLock::new();

/// In the child: this is the pipe.
pub(crate) fn open(descriptor: i32) {
    let path = format!("/dev/fd/{descriptor}");
    if let Ok(pipe) = File::options().write(true).open(path) {
        PIPE.get_or_init(|| pipe);
    }
}

/// Says whose code runs from here on: what the error begins with if it goes wrong. The time limit begins anew.
pub(crate) fn enters(who: std::fmt::Arguments<'_>) {
    if let Some(mut pipe) = PIPE.get() {
        // A parent that is gone has no use for it.
        drop(writeln!(pipe, "{}", who.to_string().replace('\n', " ")));
    }
}

/// Says that an answer for programs is written now, whatever comes after it.
pub(crate) fn answers() {
    enters(format_args!("{ANSWER}"));
}

/// Says with which status this process ends by itself: handlers end processes with any.
pub(crate) fn ends(code: u8) {
    enters(format_args!("{ENDS}{code}"));
}

/// What a child has said so far.
pub(crate) struct Said {
    pipe: File,
    /// A line whose end has not come.
    begun: Vec<u8>,
    /// Whose code it said that it enters, last.
    pub(crate) who: String,
    /// Whether it has written an answer for programs.
    pub(crate) answered: bool,
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
            answered: false,
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
                if line == ANSWER {
                    self.answered = true;
                } else if let Some(code) = line.strip_prefix(ENDS) {
                    self.ends = code.parse().ok();
                } else {
                    self.who = line.into_owned();
                    entered = true;
                }
            }
        }
        entered
    }
}
