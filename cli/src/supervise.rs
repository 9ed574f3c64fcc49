//! Runs a command again in a child process, so that a handler that crashes or hangs becomes an error.
//!
//! The child says through a pipe whose code it enters next, so that the right one is blamed; and it
//! dies with this process, however this process ends.
//!
//! A process of its own, not a fork as [`xla_ffi_runtime::isolated`] makes: the handler is to have a
//! whole process, with threads, the terminal and exit handlers, and nothing lies in this one's memory
//! that it would need.

use crate::orphans::Orphans;
use crate::pipe::{self, Said};
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use xla_ffi_runtime::signal_name;

/// The option that a supervised child is started with; it stands behind the subcommand.
const CHILD: &str = "--supervised";
/// How a child ends that came to its end, which it says through the pipe too: handlers end processes with any status.
const DONE: u8 = 187;
const FAILED: u8 = 188;
/// Its standard output was gone by then: what it wrote there went nowhere.
const CLOSED: u8 = 189;
/// It came to its end and could not say so: the pipe was gone.
const UNSAID: u8 = 190;
/// Who is blamed from the end of the work on: exit handlers and destructors of what was loaded run.
const ENDING: &str = "the library, as its process ends,";
/// What the child may take beyond the limit where it is in no call: loading, and telling what happened.
const GRACE: Duration = Duration::from_secs(5);
/// What a call may be late before it is stopped: it tells by itself that it was, and what else it knows of it, where it comes
/// back.
const LATE: Duration = Duration::from_millis(500);
/// Longer limits are no limits; clocks cannot count every number of seconds.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a child is told by its parent: the pipe's descriptor and the parent's number.
#[derive(Clone, Debug)]
pub(crate) struct Supervisor {
    pipe: i32,
    parent: u32,
}

impl std::str::FromStr for Supervisor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once(',').and_then(|(pipe, parent)| {
            Some(Self {
                pipe: pipe.parse().ok()?,
                parent: parent.parse().ok()?,
            })
        });
        numbers.ok_or_else(|| "this option is the program's own".into())
    }
}

/// Does the work of a supervised child, and tells how it came to its end, so that a handler that ends
/// the process with a status of its own is not taken for that.
pub(crate) fn child(supervisor: &Supervisor, work: impl FnOnce() -> Result<Done>) -> ExitCode {
    #[cfg(any(target_os = "linux", target_os = "freebsd"))]
    // Where the kernel refuses, the time limit ends the child.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    if std::os::unix::process::parent_id() != supervisor.parent {
        // The parent died before the line above.
        return ExitCode::from(FAILED);
    }
    pipe::open(supervisor.pipe);
    // The standard library's own handlers let a signal pass that nobody's access to memory has brought about.
    xla_ffi_runtime::__cli::crashes_end_the_process();
    let outcome = work();
    crate::progress::done();
    let closer = pipe::closer();
    let (code, told) = match outcome {
        // What a program reads has been given to the parent.
        Ok(Done::Answered) => (DONE, None),
        Ok(Done::Told) if closer.is_some() => (CLOSED, closer),
        Ok(Done::Told) => (DONE, None),
        Err(error) if closer.is_some() && is_no_file(&error) => (CLOSED, closer),
        Err(error) => (FAILED, Some(crate::words::error_text(&error))),
    };
    let said = match (code, &told) {
        (FAILED, Some(error)) => pipe::fails(error),
        (CLOSED, Some(who)) => {
            pipe::enters(format_args!("{who}"));
            Ok(())
        }
        _ => Ok(()),
    };
    if code != CLOSED {
        pipe::enters(format_args!("{ENDING}"));
    }
    match said.and_then(|()| pipe::ends(code)) {
        Ok(()) => ExitCode::from(code),
        Err(_) => {
            if let Some(error) = told.filter(|_| code == FAILED) {
                crate::words::tell!("error: {error}");
            }
            ExitCode::from(UNSAID)
        }
    }
}

/// How the work of a child was told.
pub(crate) enum Done {
    /// In words, on standard output.
    Told,
    /// To programs, through the parent.
    Answered,
}

/// Whether something was written to what is no open file.
fn is_no_file(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    causes.any(|cause| {
        let cause = cause.downcast_ref::<std::io::Error>();
        cause.and_then(std::io::Error::raw_os_error) == Some(rustix::io::Errno::BADF.raw_os_error())
    })
}

/// Runs this program again with the same command line and [`CHILD`], and gives its exit code. Each call may take as
/// long as `limit`; what else it enters, [`GRACE`] more.
pub(crate) fn again(limit: Duration) -> Result<ExitCode> {
    let (write, mut said) = Said::new().context("a pipe to a child process")?;
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let child = format!("{CHILD}={},{}", write.as_raw_fd(), std::process::id());
    arguments.insert(1.min(arguments.len()), child.into());
    let program = std::env::current_exe().context("this program's own file")?;
    let orphans = Orphans::taken_in();
    let mut child = Command::new(program)
        .args(arguments)
        .spawn()
        .context("a child process")?;
    drop(write);
    let given = |is_call: bool| match is_call {
        true => limit.min(DAY),
        false => limit.saturating_add(GRACE).min(DAY),
    };
    let until = |is_call: bool| {
        Instant::now() + given(is_call) + if is_call { LATE } else { Duration::ZERO }
    };
    let mut end = until(false);
    let mut pause = Duration::from_millis(1);
    loop {
        let ended = child.try_wait().context("the child process")?;
        // After the wait: all that a child said that has ended is there.
        if said.read() {
            end = until(said.is_call);
        }
        if let Some(status) = ended {
            let who = said.who;
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            let unsaid = code == Some(UNSAID) && said.ends.is_none();
            let code = code.filter(|code| said.ends == Some(*code));
            if !matches!(code, Some(DONE)) {
                crate::progress::clear();
                orphans.end();
            }
            if let Some(signal) = status.signal() {
                let name = signal_name(signal);
                let name = match Signal::from_named_raw(signal) {
                    Some(Signal::SEGV) => format!("{name} or a full stack"),
                    _ => name.to_owned(),
                };
                bail!("{who} crashed its process with signal {signal} ({name})");
            }
            return match code {
                Some(DONE) => {
                    if let Some(answer) = &said.answer {
                        crate::output::json(answer)?;
                    }
                    Ok(ExitCode::SUCCESS)
                }
                Some(FAILED) => match said.error {
                    Some(error) => bail!("{error}"),
                    None => bail!("{who} failed, and its process did not say how"),
                },
                Some(CLOSED) => bail!(
                    "{who} closed its process's standard output, where the results were to be written"
                ),
                _ if unsaid => bail!(
                    "{who} closed the pipe through which its process says how it ended, or ended it, with {status}"
                ),
                _ => bail!("{who} ended its process, with {status}"),
            };
        }
        if Instant::now() >= end {
            child.kill().context("the child process")?;
            child.wait().context("the child process")?;
            orphans.end();
            said.read();
            crate::progress::clear();
            let who = &said.who;
            let given = given(said.is_call);
            let rest = match said.is_call {
                true => String::new(),
                false => format!(", and {GRACE:?} more what is no call"),
            };
            bail!(
                "{who} did not return within {given:?} and was stopped; --time-limit sets how long a call may take{rest}"
            );
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
