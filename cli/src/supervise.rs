//! Runs a command again in a child process, so that a handler that crashes or hangs becomes an error.

use anyhow::{Context, Result, bail};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The option that a supervised child is started with; it stands behind the subcommand.
pub(crate) const CHILD: &str = "--in-this-process";

/// Runs this program again with the same command line and [`CHILD`], and gives its exit code.
pub(crate) fn again(limit: Duration) -> Result<ExitCode> {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    arguments.insert(1.min(arguments.len()), CHILD.into());
    let program = std::env::current_exe().context("this program's own file")?;
    let mut child = Command::new(program)
        .args(arguments)
        .spawn()
        .context("a child process")?;
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait().context("the child process")? {
            if let Some(signal) = status.signal() {
                let name = match signal {
                    6 => " (SIGABRT: it gave up, see above)",
                    11 => " (SIGSEGV: a wild memory access)",
                    7 => " (SIGBUS)",
                    8 => " (SIGFPE: a division by zero)",
                    4 => " (SIGILL)",
                    _ => "",
                };
                bail!("the handler crashed its process with signal {signal}{name}");
            }
            let code = status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(1);
            // A handler that ends the process is no success, whatever it says.
            return Ok(ExitCode::from(code));
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
