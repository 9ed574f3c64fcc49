//! Runs this program again as a child process, so that foreign code that crashes or hangs becomes an error.
//!
//! The child says through a pipe whose code it enters next, so that the right code is blamed, and how it ended.

use crate::output;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// The option of a supervised child; it follows the subcommand.
const CHILD: &str = "--supervised";
/// What is blamed after the work: exit handlers and destructors of what was loaded run.
const ENDING: &str = "the library, as its process ends,";
/// What the child may take beyond the limit outside of calls: loading, and reporting.
const GRACE: Duration = Duration::from_secs(5);
/// What a call may take beyond the limit, to report by itself that it was late.
const LATE: Duration = Duration::from_millis(500);
/// Longer limits are no limits; clocks cannot count every number of seconds.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of a line at most; ours are shorter.
const LONGEST: usize = 1 << 20;

/// Does the work of a supervised child, which writes to the parent by this descriptor.
pub(crate) fn child(pipe: i32, work: impl FnOnce() -> Result<()>) -> ExitCode {
    if output::connect(pipe).is_err() {
        return ExitCode::FAILURE;
    }
    let outcome = work();
    let error = outcome.err().map(|error| output::error_text(&error));
    output::enters(format_args!("{ENDING}"));
    match (output::say(|| json!({ "ends": error })), error) {
        (Ok(_), _) => ExitCode::SUCCESS,
        (Err(_), error) => {
            eprintln!("error: {}", error.unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

/// Runs the same command line again in a child process and prints its answer for programs, if any.
///
/// # Errors
/// As [`ask`].
pub(crate) fn rerun(limit: Duration) -> Result<ExitCode> {
    let (status, said) = run(limit, own_arguments_with(&[]))?;
    if let Some(answer) = outcome(status, said)? {
        output::json(&answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the same command line with further options in a child process and returns its answer for programs.
///
/// # Errors
/// As [`ask`].
pub(crate) fn rerun_for_answer(limit: Duration, options: &[String]) -> Result<Option<Value>> {
    ask(limit, own_arguments_with(options))
}

/// This command line with further options.
fn own_arguments_with(options: &[String]) -> Vec<OsString> {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let at = 1.min(arguments.len());
    arguments.splice(at..at, options.iter().map(OsString::from));
    arguments
}

/// Runs this program in a child process and returns its answer for programs; how the process ends after that does not
/// matter.
///
/// # Errors
/// The child's own error, and a crash, an early end or a hang, with whose code ran.
pub(crate) fn ask(limit: Duration, arguments: Vec<OsString>) -> Result<Option<Value>> {
    let (status, mut said) = run(limit, arguments)?;
    match said.ends.take() {
        Some(None) => Ok(said.answer),
        Some(Some(error)) => Err(anyhow!(error)),
        None => outcome(status, said),
    }
}

/// Runs this program in a child process. Each call may take as long as `limit`, what else it enters [`GRACE`] more.
fn run(limit: Duration, mut arguments: Vec<OsString>) -> Result<(ExitStatus, ChildOutput)> {
    let (read, write) = rustix::pipe::pipe().context("a pipe to a child process")?;
    rustix::io::fcntl_setfd(&read, rustix::io::FdFlags::CLOEXEC)?;
    // What a handler started may hold the other end open: only what is there is read.
    rustix::io::ioctl_fionbio(&read, true)?;
    let at = 1.min(arguments.len());
    arguments.insert(at, format!("{CHILD}={}", write.as_raw_fd()).into());
    // On Linux this program, even if its file was replaced since it started.
    let program = if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe().context("this program's own file")?
    };
    let mut child = Command::new(program)
        .arg0("xla-ffi")
        .args(arguments)
        .spawn()
        .context("a child process")?;
    drop(write);
    let mut said = ChildOutput::new(read.into());
    let status = wait(&mut child, &mut said, limit);
    Ok((status?, said))
}

/// Waits for the child's end, or ends it.
fn wait(child: &mut Child, said: &mut ChildOutput, limit: Duration) -> Result<ExitStatus> {
    let given = |is_call: bool| match is_call {
        true => limit.min(DAY),
        false => limit.saturating_add(GRACE).min(DAY),
    };
    let mut end = Instant::now() + given(false);
    let mut pause = Duration::from_millis(1);
    loop {
        let ended = child.try_wait().context("the child process")?;
        // After the wait: all that a child said that has ended is there.
        if said.read() {
            end = Instant::now() + given(said.is_call) + LATE;
        }
        if let Some(status) = ended {
            return Ok(status);
        }
        if Instant::now() >= end {
            child.kill().context("the child process")?;
            child.wait().context("the child process")?;
            bail!(
                "{} did not return within {:?} and was stopped",
                said.who,
                given(said.is_call)
            );
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// What came of a child that has ended.
fn outcome(status: ExitStatus, said: ChildOutput) -> Result<Option<Value>> {
    let who = &said.who;
    if let Some(signal) = status.signal() {
        let name = signal_name(signal);
        bail!("{who} crashed its process with signal {signal} ({name})");
    }
    match said.ends {
        Some(ends) if status.success() => match ends {
            None => Ok(said.answer),
            Some(error) => Err(anyhow!(error)),
        },
        _ => bail!("{who} ended its process, with {status}"),
    }
}

/// What a signal that ended a process means.
fn signal_name(number: i32) -> &'static str {
    use rustix::process::Signal;
    match Signal::from_named_raw(number) {
        Some(Signal::SEGV) => "SIGSEGV, a wild memory access or a full stack",
        Some(Signal::ABORT) => "SIGABRT, it aborted",
        Some(Signal::BUS) => "SIGBUS, memory that is not there",
        Some(Signal::FPE) => "SIGFPE, a division by zero",
        Some(Signal::ILL) => "SIGILL, an illegal instruction",
        Some(Signal::KILL) => "SIGKILL, out of memory perhaps",
        _ => "a signal",
    }
}

/// What a child has said so far.
struct ChildOutput {
    pipe: File,
    /// A line whose end has not come.
    begun: Vec<u8>,
    /// Whose code it entered last.
    who: String,
    /// Whether that is a call.
    is_call: bool,
    answer: Option<Value>,
    /// How it ended, with its error if any.
    ends: Option<Option<String>>,
}

impl ChildOutput {
    fn new(pipe: File) -> Self {
        Self {
            pipe,
            begun: vec![],
            who: "xla-ffi itself".into(),
            is_call: false,
            answer: None,
            ends: None,
        }
    }

    /// Reads what is there, so that a child that says much is not held up. Returns true if it entered anything.
    fn read(&mut self) -> bool {
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
            while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.begun.drain(..=end).collect();
                entered |= self.read_message(&line);
            }
            if self.begun.len() > LONGEST {
                self.begun.clear();
            }
        }
        entered
    }

    fn read_message(&mut self, line: &[u8]) -> bool {
        let Ok(Value::Object(said)) = serde_json::from_slice(line) else {
            return false;
        };
        for (what, value) in said {
            match (what.as_str(), value) {
                ("answer", answer) => self.answer = Some(answer),
                ("ends", error) => self.ends = Some(error.as_str().map(str::to_owned)),
                (what @ ("enters" | "calls"), Value::String(who)) => {
                    (self.who, self.is_call) = (who, what == "calls");
                    return true;
                }
                _ => {}
            }
        }
        false
    }
}
