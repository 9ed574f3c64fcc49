//! Processes that foreign code started, and that outlive the child which did: they end with it where it was stopped or has
//! crashed.
//!
//! A process group of the child's own would have them all, and could not read the terminal any more. So whose parent has
//! died becomes this process's child (Linux and its subreapers; elsewhere they stay), and is ended here.

use std::time::Duration;

#[cfg(target_os = "linux")]
use {rustix::process, rustix::process::Pid, std::collections::HashSet};

/// What is taken in from here on.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    /// Children that this process was started with, which are none of ours.
    #[cfg(target_os = "linux")]
    others: HashSet<Pid>,
}

impl Orphans {
    /// From here on processes whose parents die become this one's.
    pub(crate) fn taken_in() -> Self {
        #[cfg(target_os = "linux")]
        {
            let others = children();
            // Where the kernel refuses, they are init's, as ever.
            let _ = process::set_child_subreaper(Some(process::getpid()));
            Self { others }
        }
        #[cfg(not(target_os = "linux"))]
        Self::default()
    }

    /// Ends them. No child that is still wanted may run.
    pub(crate) fn end(&self) {
        #[cfg(target_os = "linux")]
        // Each round finds the children of those that the one before has ended.
        for _ in 0..100 {
            let found = children();
            let found: Vec<&Pid> = found.difference(&self.others).collect();
            if found.is_empty() {
                return;
            }
            for child in found {
                let _ = process::kill_process(*child, process::Signal::KILL);
                let _ = process::waitpid(Some(*child), process::WaitOptions::empty());
            }
        }
    }
}

/// The processes whose parent is this one.
#[cfg(target_os = "linux")]
fn children() -> HashSet<Pid> {
    let own = process::getpid();
    let Ok(all) = std::fs::read_dir("/proc") else {
        return HashSet::new();
    };
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_ours = |number: &i32| {
        let stat = std::fs::read(format!("/proc/{number}/stat")).unwrap_or_default();
        // The name may be any text: what follows its last bracket are the state and the parent.
        let text = String::from_utf8_lossy(&stat);
        let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
        let parent = behind.split_whitespace().nth(1);
        parent.and_then(|parent| parent.parse().ok()) == Some(own.as_raw_nonzero().get())
    };
    numbers.filter(is_ours).filter_map(Pid::from_raw).collect()
}

/// As [`xla_ffi_runtime::isolated`]; what the child has left behind ends where it came to no good end.
pub(crate) fn isolated(
    limit: Duration,
    work: impl FnOnce() -> Vec<u8>,
) -> xla_ffi_runtime::Result<Vec<u8>> {
    let orphans = Orphans::taken_in();
    xla_ffi_runtime::isolated(limit, work).inspect_err(|_| orphans.end())
}
