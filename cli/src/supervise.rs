//! Runs a command again in a child process, so that a handler that crashes or hangs becomes an error.

use anyhow::{Context, Result, bail};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The option that a supervised child is started with; it stands behind the subcommand.
const CHILD: &str = "--supervised";
/// How a child ends that came to its end. Neither is a status with which handlers end processes.
const DONE: u8 = 187;
const FAILED: u8 = 188;
/// What the child may take beyond the call's own limit: loading, and telling what happened.
const GRACE: Duration = Duration::from_secs(5);
/// Longer limits are no limits; clocks cannot count every number of seconds.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Tells how a supervised child came to its end, so that a handler that ends the process with a
/// status of its own is not taken for that.
pub(crate) fn report(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::from(DONE),
        Err(error) => {
            eprintln!("error: {}", crate::error_text(&error));
            ExitCode::from(FAILED)
        }
    }
}

/// Runs this program again with the same command line and [`CHILD`], and gives its exit code.
pub(crate) fn again(limit: Duration) -> Result<ExitCode> {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    arguments.insert(1.min(arguments.len()), CHILD.into());
    let program = std::env::current_exe().context("this program's own file")?;
    let mut child = Command::new(program)
        .args(arguments)
        .spawn()
        .context("a child process")?;
    let end = Instant::now() + limit.saturating_add(GRACE).min(DAY);
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait().context("the child process")? {
            if let Some(signal) = status.signal() {
                let name = match signal {
                    6 => " (SIGABRT: it aborted, see above)",
                    11 => " (SIGSEGV: a wild memory access)",
                    7 => " (SIGBUS)",
                    8 => " (SIGFPE: a division by zero)",
                    4 => " (SIGILL)",
                    _ => "",
                };
                bail!("the handler crashed its process with signal {signal}{name}");
            }
            return match status.code().and_then(|code| u8::try_from(code).ok()) {
                Some(DONE) => Ok(ExitCode::SUCCESS),
                Some(FAILED) => Ok(ExitCode::FAILURE),
                _ => bail!("the handler ended its process, with {status}"),
            };
        }
        if Instant::now() >= end {
            child.kill().context("the child process")?;
            child.wait().context("the child process")?;
            bail!(
                "the handler did not return within {limit:?} and was stopped; --time-limit sets how long it may take"
            );
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
