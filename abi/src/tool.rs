//! A program that is run for this one: it ends in time, what it says is bounded, and nothing of it is left when it has ended
//! or this process has, however that came.

use crate::watch::Watcher;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long what a program has written is waited for once it has ended: something else may hold its pipes open.
const REST: Duration = Duration::from_secs(2);

/// What a program may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From its start to its end.
    pub time: Duration,
    /// Bytes of each of its two streams; what comes after them is not read, and so ends most programs.
    pub bytes: u64,
    /// Address space of each of its processes.
    pub memory: Option<u64>,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// Whether it wrote more than it may.
    pub is_cut: bool,
}

/// Why a program did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It was not started.
    #[error("{0}")]
    Start(io::Error),
    /// It took too long, and was stopped.
    #[error("it took longer than {} s and was stopped", .0.as_secs())]
    Time(Duration),
    /// The system does not tell of it.
    #[error("how it ended cannot be told: {0}")]
    Lost(io::Error),
}

/// Runs `command`, which reads nothing.
///
/// # Errors
/// [`Failure`].
pub fn run(command: &mut Command, limits: Limits, watcher: &Watcher) -> Result<Ended, Failure> {
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec and makes calls alone that are safe to make there.
    unsafe {
        command.pre_exec(move || {
            die_with(parent)?;
            limit_time(limits.time);
            limits.memory.map_or(Ok(()), limit_memory)
        });
    }
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(Failure::Start)?;
    let mut group = Group { child, watcher };
    watcher.over(Some(group.child.id()));
    let stdout = Stream::read(group.child.stdout.take(), limits.bytes);
    let stderr = Stream::read(group.child.stderr.take(), limits.bytes);
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    while !group.has_ended().map_err(Failure::Lost)? {
        if start.elapsed() > limits.time {
            return Err(Failure::Time(limits.time));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
    // What it left in the background would hold the pipes open.
    group.kill();
    let status = group.child.wait().map_err(Failure::Lost)?;
    let until = Instant::now() + REST;
    let (stdout, stderr) = (stdout.rest(until), stderr.rest(until));
    Ok(Ended {
        status,
        is_cut: stdout.1 || stderr.1,
        stdout: stdout.0,
        stderr: stderr.0,
    })
}

/// A child that leads a process group of its own; dropped, all of it ends.
struct Group<'w> {
    child: Child,
    watcher: &'w Watcher,
}

impl Group<'_> {
    /// Whether the child has ended. It is not collected, so that its number stays its group's.
    fn has_ended(&self) -> io::Result<bool> {
        // SAFETY: a struct of numbers, for which all zeros are a value.
        let mut told: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let id = self.child.id();
        // SAFETY: one struct, alive.
        match unsafe { libc::waitid(libc::P_PID, id, &raw mut told, how) } {
            0 => Ok(told.si_signo != 0),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
        }
    }

    fn kill(&self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            // SAFETY: kill touches no memory; the child leads the group and has not been waited for, so the number cannot
            // mean anyone else.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
            let _ = self.child.wait();
        }
        self.watcher.over(None);
    }
}

/// What a thread reads from a pipe.
struct Stream {
    /// The bytes so far, and whether there were more.
    read: Arc<Mutex<(Vec<u8>, bool)>>,
    ended: Receiver<()>,
}

impl Stream {
    fn read(pipe: Option<impl Read + Send + 'static>, most: u64) -> Self {
        let read = Arc::new(Mutex::new((Vec::new(), false)));
        let (sender, ended) = mpsc::channel();
        let kept = Arc::clone(&read);
        std::thread::spawn(move || {
            let mut chunk = [0; 1 << 14];
            let mut left = usize::try_from(most).unwrap_or(usize::MAX);
            let mut pipe = pipe;
            while let Some(Ok(count @ 1..)) = pipe.as_mut().map(|pipe| pipe.read(&mut chunk)) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.0.extend_from_slice(&chunk[..count.min(left)]);
                kept.1 = count > left;
                left = left.saturating_sub(count);
                if kept.1 {
                    break;
                }
            }
            // Nobody may be waiting any more.
            let _ = sender.send(());
        });
        Self { read, ended }
    }

    /// What came, the end of it not later than `until`.
    fn rest(self, until: Instant) -> (Vec<u8>, bool) {
        let left = until.saturating_duration_since(Instant::now());
        let _ = self.ended.recv_timeout(left);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut read)
    }
}

/// Runs in the child before the program does: nobody looks at the clock for it when this process has been killed.
fn die_with(parent: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: asks for a signal when the thread that started the child ends, which waits for it.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if std::os::unix::process::parent_id() != parent {
            // It died before the line above.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    let _ = parent;
    Ok(())
}

/// Runs in the child before the program does: the clock of this process comes first where there is one.
fn limit_time(limit: Duration) {
    let seconds = limit.as_secs().saturating_add(5);
    let limit = libc::rlimit {
        rlim_cur: seconds,
        rlim_max: seconds,
    };
    // SAFETY: reads one struct, and limits the calling process alone. Where it is refused the clock is left.
    unsafe { libc::setrlimit(libc::RLIMIT_CPU, &raw const limit) };
}

/// Limits the address space of this process and of those that it starts.
pub(crate) fn limit_memory(most: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: reads one struct, and limits the calling process alone.
    let outcome = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    // Not every system takes this limit; the clock is the other.
    if outcome == 0 || !cfg!(target_os = "linux") {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
