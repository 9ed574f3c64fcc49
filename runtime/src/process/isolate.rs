//! Runs a piece of work in a child process with a time limit: a crash or a hang is a finding there,
//! not the end of the program.
//!
//! The child is a fork: it has the caller's memory and only the calling thread. glibc takes its own
//! locks (allocator, loader, streams) across a fork, and this crate takes its tables; work must not
//! count on other threads. The child never returns, runs no exit handlers, and dies with its parent.
//!
//! The program `xla-ffi` isolates its `run` and `bench` otherwise, by running itself again: their
//! handlers want threads of a pool and of streams, the terminal, and exit handlers, which a fork of a
//! process with threads cannot have. A fork is for what a new process does not have: functions
//! and operands that lie in the caller's memory.

pub(crate) use super::across_forks::forks;
use crate::{Error, Hazard, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Exit status of a child whose work panicked.
const PANICKED: i32 = 101;

/// Runs `work` in a child and gives back the bytes that it made.
///
/// # Errors
/// The hazard [`Hazard::Crash`] when the child dies or does not answer within `limit`.
pub fn isolated(limit: Duration, work: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>> {
    attempt(limit, work)?.map_err(|ending| Error::hazard(Hazard::Crash, ending.describe(limit)))
}

/// How long the first child of a probe has.
const FIRST: Duration = Duration::from_secs(2);

/// Runs a probe of a library, which leaves nothing behind, as [`isolated`] does; once more where it does not answer. A child
/// that is forked while another thread holds a lock of the library's, since it registers a type there or makes a constant of
/// a function, waits for that lock for good; the next child finds it free.
///
/// # Errors
/// Those of [`isolated`].
pub(crate) fn isolated_probe(limit: Duration, work: impl Fn() -> Vec<u8>) -> Result<Vec<u8>> {
    match attempt(FIRST, &work)? {
        Err(Ending::TimedOut) => isolated(limit, work),
        answer => answer.map_err(|ending| Error::hazard(Hazard::Crash, ending.describe(FIRST))),
    }
}

/// As good as for ever.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64 / 2);

/// Runs `work` in a child: what it made, or how the child ended.
fn attempt(
    limit: Duration,
    work: impl FnOnce() -> Vec<u8>,
) -> Result<std::result::Result<Vec<u8>, Ending>> {
    // Past this neither a point in time nor the child's alarm can be counted.
    let limit = limit.min(LONGEST);
    // Sockets, not a pipe: macOS has no `pipe2`, and pipes of the standard library ask for Rust 1.87.
    let ends = UnixStream::pair().map_err(|error| system("socketpair", &error))?;
    let (read, write) = (OwnedFd::from(ends.0), OwnedFd::from(ends.1));
    // The loader's lock; the others are held by every fork.
    forks();
    let held = hold_loader();
    // SAFETY: the child keeps to what the head of this file says.
    let child = unsafe { libc::fork() };
    drop(held);
    if child == 0 {
        drop(read);
        in_child(&write, limit, work);
    }
    drop(write);
    if child < 0 {
        return Err(system("fork", &std::io::Error::last_os_error()));
    }
    let mut is_gone = false;
    let answer = listen(&read, child, Instant::now() + limit, &mut is_gone);
    // Once it is collected the number may be another process's.
    if !is_gone {
        let _reaped = reap(child, true);
    }
    Ok(answer)
}

/// Taken while a library is loaded, and across a fork: a child that is forked while another thread
/// loads one finds the loader half-way and dies in its own first load.
static LOADING: Mutex<()> = Mutex::new(());

/// That of a child which was forked while another thread loaded a library.
static RENEWED: AtomicPtr<Mutex<()>> = AtomicPtr::new(std::ptr::null_mut());

fn loading() -> &'static Mutex<()> {
    // SAFETY: null, or one that `renew_loader` has left for good.
    unsafe { RENEWED.load(Ordering::Acquire).as_ref() }.unwrap_or(&LOADING)
}

/// Keeps other threads from loading libraries.
pub(crate) fn hold_loader() -> MutexGuard<'static, ()> {
    loading().lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, unless one loads a library now.
pub(crate) fn hold_loader_if_free() -> Option<MutexGuard<'static, ()>> {
    match loading().try_lock() {
        Ok(held) => Some(held),
        Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// In a child, whose only thread this is: gives it a lock of its own where somebody of the parent's has the one there was.
pub(crate) fn renew_loader() {
    if hold_loader_if_free().is_none() {
        let own = Box::leak(Box::new(Mutex::new(())));
        RENEWED.store(own, Ordering::Release);
    }
}

fn system(call: &str, error: &std::io::Error) -> Error {
    Error::new(
        crate::Code::Unavailable,
        format!("no child process: {call}: {error}"),
    )
}

/// How many children deep this process is: threads of its parents' do not exist here.
static DEPTH: AtomicU32 = AtomicU32::new(0);

/// Whether this process is a child of [`isolated`].
pub(crate) fn in_child_process() -> bool {
    DEPTH.load(Ordering::Relaxed) > 0
}

/// That something was asked in a child which only the parent's threads could do.
#[cold]
pub(crate) fn elsewhere(what: &str) -> Error {
    Error::new(
        crate::Code::FailedPrecondition,
        format!(
            "this process is a fork, and {what} in the process that it was forked of, which has the threads"
        ),
    )
}

/// Everything that the child does. Never returns.
fn in_child(write: &OwnedFd, limit: Duration, work: impl FnOnce() -> Vec<u8>) -> ! {
    DEPTH.fetch_add(1, Ordering::Relaxed);
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: limits this process only; a crash is expected and needs no core file.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    #[cfg(target_os = "linux")]
    // SAFETY: asks for a signal when the parent's thread ends.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    // SAFETY: a second line of defence where the parent dies first.
    unsafe { libc::alarm(u32::try_from(limit.as_secs()).unwrap_or(u32::MAX - 2) + 2) };
    crashes_end_the_process();
    let status = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(bytes) => {
            let length = (bytes.len() as u64).to_le_bytes();
            i32::from(!(send(write, &length) && send(write, &bytes)))
        }
        Err(payload) => {
            crate::process::guard::discard(payload);
            PANICKED
        }
    };
    // SAFETY: ends the process at once, without exit handlers of the parent's.
    unsafe { libc::_exit(status) }
}

/// From here on a wild access to memory ends this process, and so does its signal alone, which a handler may raise: Rust's
/// own functions for them would take it for one that comes again, and let it pass.
pub fn crashes_end_the_process() {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the functions of Rust's runtime are of no use where the process is to end.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

fn send(pipe: &OwnedFd, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        // SAFETY: the slice is alive.
        let sent = unsafe { libc::write(pipe.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(sent) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(_) if interrupted() => {}
            Err(_) => return false,
        }
    }
    true
}

fn interrupted() -> bool {
    std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
}

/// What the signal that ended a process says of its end: `"SIGSEGV, a wild memory access"` for instance.
///
/// ```
/// assert!(xla_ffi_runtime::signal_name(6).starts_with("SIGABRT"));
/// ```
#[must_use]
pub fn signal_name(number: i32) -> &'static str {
    match number {
        libc::SIGSEGV => "SIGSEGV, a wild memory access",
        libc::SIGABRT => "SIGABRT, it aborted",
        libc::SIGBUS => "SIGBUS, memory that is not there",
        libc::SIGFPE => "SIGFPE, a division by zero",
        libc::SIGILL => "SIGILL, an illegal instruction",
        libc::SIGKILL => "SIGKILL, out of memory perhaps",
        _ => "a signal",
    }
}

/// How a child ended without an answer.
enum Ending {
    TimedOut,
    Signal(i32),
    Status(i32),
    /// The program ignores SIGCHLD, or waits for whatever child ends.
    CollectedElsewhere,
}

impl Ending {
    fn describe(&self, limit: Duration) -> String {
        match self {
            Self::TimedOut => format!("it did not answer within {limit:?} and was stopped"),
            Self::Signal(number) => {
                let name = signal_name(*number);
                format!("it crashed in its child process (signal {number}: {name})")
            }
            Self::CollectedElsewhere => {
                "its child process ended without an answer; how, the program has collected elsewhere \
                 (it ignores SIGCHLD, or waits for any child)"
                    .into()
            }
            Self::Status(PANICKED) => "it panicked in its child process".into(),
            Self::Status(status) => format!("it ended its child process with status {status}"),
        }
    }
}

fn listen(
    pipe: &OwnedFd,
    child: libc::pid_t,
    end: Instant,
    is_gone: &mut bool,
) -> std::result::Result<Vec<u8>, Ending> {
    let mut bytes = Vec::new();
    let mut ended = None;
    loop {
        let whole = bytes
            .first_chunk::<8>()
            .map(|length| u64::from_le_bytes(*length));
        if let Some(length) = whole.and_then(|length| usize::try_from(length).ok()) {
            if bytes.len() - 8 >= length {
                return Ok(bytes.split_off(8));
            }
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Ending::TimedOut);
        }
        // Another fork of this process may hold the pipe open: its end alone says nothing.
        let wait = if ended.is_some() {
            0
        } else {
            left.as_millis().clamp(1, 20) as libc::c_int
        };
        let mut poll = libc::pollfd {
            fd: pipe.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, alive.
        let ready = unsafe { libc::poll(&raw mut poll, 1, wait) };
        if ready > 0 && poll.revents & libc::POLLIN != 0 {
            let mut chunk = [0_u8; 65536];
            // SAFETY: the chunk has room for its length.
            let read =
                unsafe { libc::read(pipe.as_raw_fd(), chunk.as_mut_ptr().cast(), chunk.len()) };
            if let Ok(read @ 1..) = usize::try_from(read) {
                bytes.extend_from_slice(&chunk[..read]);
                continue;
            }
        }
        if let Some(ending) = ended {
            return Err(ending);
        }
        ended = reap(child, false);
        *is_gone = ended.is_some();
    }
}

/// Collects the child if it has ended, after ending it if `kill`.
fn reap(child: libc::pid_t, kill: bool) -> Option<Ending> {
    if kill {
        // SAFETY: the child has not been collected, or the call fails without effect.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
    let mut status = 0;
    // SAFETY: one word, alive.
    let pid =
        unsafe { libc::waitpid(child, &raw mut status, if kill { 0 } else { libc::WNOHANG }) };
    if pid != child {
        let is_elsewhere =
            pid < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD);
        return is_elsewhere.then_some(Ending::CollectedElsewhere);
    }
    Some(if libc::WIFSIGNALED(status) {
        Ending::Signal(libc::WTERMSIG(status))
    } else {
        Ending::Status(libc::WEXITSTATUS(status))
    })
}

/// Tests whose threads panic hold this, and so do those whose children do: a child that was forked while
/// another thread printed would wait for that thread's lock.
#[cfg(test)]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn answers_come_back_whole() {
        let big = vec![7_u8; 300_000];
        assert_eq!(isolated(LIMIT, || big.clone()).unwrap(), big);
        assert_eq!(isolated(LIMIT, Vec::new).unwrap(), b"");
    }

    #[test]
    fn a_child_that_somebody_else_collects_is_known_to_be_gone() {
        let answer = isolated(LIMIT, || {
            // SAFETY: of the child, which is this test's alone.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
            let begun = Instant::now();
            // SAFETY: ends the child's child.
            let crashed = isolated(LIMIT, || unsafe { libc::abort() });
            let error = crashed.unwrap_err();
            let quick = begun.elapsed() < LIMIT / 2;
            let whole = isolated(Duration::MAX, || vec![7]).unwrap() == [7];
            let said = error.message().contains("collected elsewhere");
            [quick, whole, said].map(u8::from).to_vec()
        });
        assert_eq!(answer.unwrap(), [1, 1, 1]);
        assert_eq!(isolated(Duration::MAX, || vec![7]).unwrap(), [7]);
    }

    #[test]
    fn a_lock_that_another_thread_held_is_free_in_the_next_child() {
        let lock = Mutex::new(());
        let held = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _guard = lock.lock().unwrap();
                held.wait();
                std::thread::sleep(Duration::from_millis(300));
            });
            held.wait();
            let work = || {
                drop(lock.lock());
                vec![1]
            };
            assert_eq!(isolated_probe(LIMIT, work).unwrap(), [1]);
        });
    }

    #[test]
    fn crashes_hangs_and_exits_are_told() {
        let _alone = alone();
        let text = |limit, work: fn() -> Vec<u8>| {
            let error = isolated(limit, work).unwrap_err();
            assert!(error.has(Hazard::Crash));
            error.message().to_owned()
        };
        // SAFETY: ends the child.
        assert!(text(LIMIT, || unsafe { libc::abort() }).contains("SIGABRT"));
        // SAFETY: ends the child.
        assert!(text(LIMIT, || unsafe { libc::_exit(3) }).contains("status 3"));
        assert!(text(LIMIT, || panic!("on purpose")).contains("panicked"));
        let hang = || loop {
            std::thread::sleep(Duration::from_secs(1));
        };
        assert!(text(Duration::from_millis(200), hang).contains("did not answer"));
    }
}
