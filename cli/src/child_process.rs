//! Runs this program again as a child process, so that a crash or hang in a library becomes an error.
//!
//! The child process writes messages to a pipe. The messages contain the name of the code that runs next, for use in
//! errors, and the result of the work.

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
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use xla_ffi_doctor::library::Provided;

/// The option that marks a supervised child process. The option is the first after the subcommand.
const CHILD: &str = "--supervised";
/// The name in errors of code that runs after the child process has finished its work: exit handlers and destructors.
const ENDING: &str = "the library, as its process ends,";
/// The time for loading a library and for reporting, in addition to the time limit.
const GRACE: Duration = Duration::from_secs(5);
/// The time in which a call may report its own timeout before the child process is killed.
const LATE: Duration = Duration::from_millis(500);
/// The longest time limit. Longer limits are shortened, so that additions to the clock do not overflow.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Environment variables of child processes, which set the library search path and libraries to load first.
static ENVIRONMENT: OnceLock<Vec<(&str, OsString)>> = OnceLock::new();

/// Sets the folders that child processes search for libraries, and the libraries that they load first.
pub(crate) fn provide(provided: &Provided) -> Result<()> {
    let mut variables = Vec::new();
    for (name, paths) in [
        ("LD_LIBRARY_PATH", &provided.folders),
        ("LD_PRELOAD", &provided.preload),
    ] {
        if !paths.is_empty() {
            let known = std::env::var_os(name).unwrap_or_default();
            let known = std::env::split_paths(&known).collect::<Vec<_>>();
            let absolute: Vec<PathBuf> = paths
                .iter()
                .map(std::path::absolute)
                .collect::<Result<_, _>>()?;
            let all = std::env::join_paths(absolute.iter().chain(&known));
            variables.push((
                name,
                all.context("a folder or file has a colon in its name")?,
            ));
        }
    }
    ENVIRONMENT.get_or_init(|| variables);
    Ok(())
}

/// The error if a child process was killed at its time limit.
#[derive(Debug, thiserror::Error)]
#[error("{who} did not return within the time limit of {limit:?} and was stopped")]
pub(crate) struct TimedOut {
    who: String,
    limit: Duration,
}

/// Runs `work` in a supervised child process. Messages to the parent are written to the file descriptor `pipe`.
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
            output::message(format_args!("error: {}", error.unwrap_or_default()));
            ExitCode::FAILURE
        }
    }
}

/// Runs the same command line in a child process. Prints the JSON output of the child process, if it has any.
///
/// # Errors
/// See [`ask`].
pub(crate) fn rerun(limit: Duration) -> Result<ExitCode> {
    let (status, said) = run(limit, own_arguments_with(&[]))?;
    if let Some(answer) = outcome(status, said)? {
        output::json(&answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the same command line with additional options in a child process. Returns the JSON output of the child process.
///
/// # Errors
/// See [`ask`].
pub(crate) fn rerun_for_answer(limit: Duration, options: &[String]) -> Result<Option<Value>> {
    ask(limit, own_arguments_with(options))
}

/// Returns the command-line arguments of this process, with additional options after the subcommand.
fn own_arguments_with(options: &[String]) -> Vec<OsString> {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let at = 1.min(arguments.len());
    arguments.splice(at..at, options.iter().map(OsString::from));
    arguments
}

/// Runs this program in a child process and returns the JSON output. Failures are ignored after the child process has
/// reported the end of its work.
///
/// # Errors
/// Returns the error that the child process reported. If the child process crashed, ended early or hung, the error
/// names the code that was running.
pub(crate) fn ask(limit: Duration, arguments: Vec<OsString>) -> Result<Option<Value>> {
    let (status, mut said) = run(limit, arguments)?;
    match said.ends.take() {
        Some(None) => Ok(said.answer),
        Some(Some(error)) => Err(anyhow!(error)),
        None => outcome(status, said),
    }
}

/// Runs a different program in a child process, and returns the JSON output of that program.
///
/// The last two arguments of the program are the number of the pipe's file descriptor and `request`.
///
/// # Errors
/// See [`ask`].
pub(crate) fn ask_program(
    limit: Duration,
    mut command: Command,
    request: &str,
) -> Result<Option<Value>> {
    let arguments = |pipe: i32| {
        command.arg(pipe.to_string()).arg(request);
        Ok(command)
    };
    let (status, said) = supervise(limit, arguments)?;
    outcome(status, said)
}

/// Runs this program in a child process. Calls of handlers may take the time `limit`, and other steps may take
/// [`GRACE`] longer.
fn run(limit: Duration, mut arguments: Vec<OsString>) -> Result<(ExitStatus, ChildOutput)> {
    supervise(limit, |pipe| {
        let at = 1.min(arguments.len());
        arguments.insert(at, format!("{CHILD}={pipe}").into());
        // On Linux, this path refers to the running program, even if the program's file was replaced.
        let program = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe().context("cannot find this program's file")?
        };
        let mut command = Command::new(program);
        command.arg0("xla-ffi").args(arguments);
        Ok(command)
    })
}

/// Runs a command as a child process that writes messages to a pipe. Returns the exit status and the messages.
fn supervise(
    limit: Duration,
    command: impl FnOnce(i32) -> Result<Command>,
) -> Result<(ExitStatus, ChildOutput)> {
    let (read, write) = rustix::pipe::pipe().context("cannot create a pipe to a child process")?;
    rustix::io::fcntl_setfd(&read, rustix::io::FdFlags::CLOEXEC)?;
    // Processes that a handler started may keep the pipe open, so reads must not block.
    rustix::io::ioctl_fionbio(&read, true)?;
    let mut child = command(write.as_raw_fd())?
        .envs(
            ENVIRONMENT
                .get()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name, value)),
        )
        .spawn()
        .context("cannot start a child process")?;
    drop(write);
    let mut said = ChildOutput::new(read.into());
    let status = wait(&mut child, &mut said, limit);
    Ok((status?, said))
}

/// Waits until the child process ends, and kills it at the time limit.
fn wait(child: &mut Child, said: &mut ChildOutput, limit: Duration) -> Result<ExitStatus> {
    let given = |is_call: bool| match is_call {
        true => limit.min(DAY),
        false => limit.saturating_add(GRACE).min(DAY),
    };
    let mut end = Instant::now() + given(false);
    let mut pause = Duration::from_millis(1);
    loop {
        let ended = child
            .try_wait()
            .context("cannot wait for the child process")?;
        // Messages are read after the status, so that no message of an ended process is missed.
        if said.read() {
            end = Instant::now() + given(said.is_call) + LATE;
        }
        if let Some(status) = ended {
            return Ok(status);
        }
        if Instant::now() >= end {
            child.kill().context("cannot kill the child process")?;
            child.wait().context("cannot wait for the child process")?;
            let who = said.who.clone();
            let limit = given(said.is_call);
            return Err(TimedOut { who, limit }.into());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Returns the JSON output, or the error, of a child process that has ended.
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
        _ => bail!("{who} ended its process with {status}"),
    }
}

/// Returns the name of a signal and the signal's usual cause.
fn signal_name(number: i32) -> &'static str {
    use rustix::process::Signal;
    match Signal::from_named_raw(number) {
        Some(Signal::SEGV) => "SIGSEGV, invalid memory access or stack overflow",
        Some(Signal::ABORT) => "SIGABRT, abort",
        Some(Signal::BUS) => "SIGBUS, access to unmapped memory",
        Some(Signal::FPE) => "SIGFPE, division by zero",
        Some(Signal::ILL) => "SIGILL, illegal instruction",
        Some(Signal::KILL) => "SIGKILL, possibly out of memory",
        _ => "unknown signal",
    }
}

/// The messages that a child process has written so far.
struct ChildOutput {
    pipe: File,
    /// The bytes of an incomplete line, which is the start of a message.
    begun: Vec<u8>,
    /// The name of the code that the child process runs now, for errors.
    who: String,
    /// Whether the child process now runs a call, to which the time limit applies without additional time.
    is_call: bool,
    answer: Option<Value>,
    /// The result that the child process has reported. The inner value is an error, or `None` for success.
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

    /// Reads all available messages, so that the child process can write more. Returns true if a message reports that
    /// different code runs.
    fn read(&mut self) -> bool {
        let mut entered = false;
        let mut bytes = [0; 4096];
        // The number of reads is limited, because a handler may write to the pipe endlessly.
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
