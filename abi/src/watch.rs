//! A process that outlives this one by a moment: whatever ends this program, a signal that nothing can catch too, it ends the
//! programs that were started from here, with all that they have started, and removes the scratch folder.
//!
//! The signal that Linux sends a child whose parent has died reaches a compiler's driver alone, not the compiler that the
//! driver waits for; and no handler of signals sees `SIGKILL`. A pipe that closes when its writer ends is seen everywhere.

use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Reads the number of the process group that runs, none where none does, until the pipe closes. What is killed may have
/// made a file after the folder was looked through, so that it is looked at again.
const SCRIPT: &str = "while read -r line; do group=$line; done
[ -n \"$group\" ] && kill -9 \"-$group\"
[ -n \"$1\" ] && rm -rf -- \"$1\" && sleep 1 && rm -rf -- \"$1\"";

/// Watches over this process until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    /// None where there is no shell: what Linux does by itself is left.
    shell: Option<Child>,
}

impl Watcher {
    /// Starts it; `folder` is removed when this process dies.
    #[must_use]
    pub fn start(folder: Option<&Path>) -> Self {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "xla-ffi"])
            .args(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What a terminal sends to this program's group is not for it.
            .process_group(0)
            .spawn();
        Self { shell: shell.ok() }
    }

    /// From here on this process group is ended when this process dies; with none, no group is.
    pub(crate) fn over(&self, group: Option<u32>) {
        let pipe = self.shell.as_ref().and_then(|shell| shell.stdin.as_ref());
        if let Some(mut pipe) = pipe {
            let group = group.map_or_else(String::new, |group| group.to_string());
            // A watcher that somebody has killed watches nothing.
            let _ = pipe.write_all(format!("{group}\n").as_bytes());
        }
    }

    /// The pipe whose end is this process's end: a child that is forked closes it.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        let pipe = self.shell.as_ref()?.stdin.as_ref()?;
        Some(pipe.as_raw_fd())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(shell) = &mut self.shell {
            let _ = shell.kill();
            let _ = shell.wait();
        }
    }
}
