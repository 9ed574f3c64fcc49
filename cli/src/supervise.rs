//! Runs a command again in a child process, so that a handler that crashes or hangs becomes an error.
//!
//! The child says through a pipe whose code it enters next, so that the right one is blamed; and it
//! dies with this process, however this process ends.
//!
//! A process of its own, not a fork as [`xla_ffi_runtime::isolated`] makes: the handler is to have a
//! whole process, with threads, the terminal and exit handlers, and nothing lies in this one's memory
//! that it would need.

use crate::pipe::{self, Said};
use anyhow::{Context, Result, bail};
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
/// Its standard output was gone by then: what it wrote there went nowhere, and nobody told it.
const CLOSED: u8 = 189;
/// What the child may take beyond the call's own limit: loading, and telling what happened.
const GRACE: Duration = Duration::from_secs(5);
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
pub(crate) fn child(supervisor: &Supervisor, work: impl FnOnce() -> Result<()>) -> ExitCode {
    #[cfg(any(target_os = "linux", target_os = "freebsd"))]
    // Where the kernel refuses, the time limit ends the child.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    if std::os::unix::process::parent_id() != supervisor.parent {
        // The parent died before the line above.
        return ExitCode::from(FAILED);
    }
    pipe::open(supervisor.pipe);
    let code = match work() {
        Ok(()) if crate::output::is_gone() => CLOSED,
        Ok(()) => DONE,
        Err(error) => {
            crate::progress::done();
            crate::words::tell!("error: {}", crate::words::error_text(&error));
            // An answer for programs is the parent's to write, where it could not be written here.
            if crate::output::is_gone() {
                CLOSED
            } else {
                FAILED
            }
        }
    };
    pipe::ends(code);
    ExitCode::from(code)
}

/// Runs this program again with the same command line and [`CHILD`], and gives its exit code. What it enters may take as
/// long as `limit`, each time.
pub(crate) fn again(limit: Duration) -> Result<ExitCode> {
    let (write, mut said) = Said::new().context("a pipe to a child process")?;
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let child = format!("{CHILD}={},{}", write.as_raw_fd(), std::process::id());
    arguments.insert(1.min(arguments.len()), child.into());
    let program = std::env::current_exe().context("this program's own file")?;
    let mut child = Command::new(program)
        .args(arguments)
        .spawn()
        .context("a child process")?;
    drop(write);
    let limit_and_grace = limit.saturating_add(GRACE).min(DAY);
    let mut end = Instant::now() + limit_and_grace;
    let mut pause = Duration::from_millis(1);
    loop {
        let ended = child.try_wait().context("the child process")?;
        // After the wait: all that a child said that has ended is there.
        if hear(&mut said) {
            end = Instant::now() + limit_and_grace;
        }
        if let Some(status) = ended {
            let who = said.who;
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            let code = code.filter(|code| said.ends == Some(*code));
            if !matches!(code, Some(DONE | FAILED)) {
                crate::progress::clear();
            }
            if let Some(signal) = status.signal() {
                let name = signal_name(signal);
                bail!("{who} crashed its process with signal {signal} ({name})");
            }
            return match code {
                Some(DONE) => Ok(ExitCode::SUCCESS),
                Some(FAILED) => Ok(ExitCode::FAILURE),
                Some(CLOSED) => bail!(
                    "{who} closed its process's standard output, where the results were to be written"
                ),
                _ => bail!("{who} ended its process, with {status}"),
            };
        }
        if Instant::now() >= end {
            child.kill().context("the child process")?;
            child.wait().context("the child process")?;
            hear(&mut said);
            crate::progress::clear();
            bail!(
                "{} did not return within {limit:?} and was stopped; --time-limit sets how long it may take",
                said.who
            );
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Reads what the child said; whether it entered anything.
fn hear(said: &mut Said) -> bool {
    let entered = said.read();
    if said.answered {
        crate::output::answered();
    }
    entered
}
