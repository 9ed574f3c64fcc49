//! libclang in a process of its own: a header that it breaks down on, eats all memory with or does not come to an end with is
//! an error, not the end of the program.
//!
//! The process is a fork, and so has what this one has in memory, and the calling thread alone: what it does must not count
//! on other threads. It answers in JSON.

use crate::header::{Declared, Error, Source};
use crate::watch::Watcher;
use crate::{clang, tool};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Address space that it may take beyond what this process has.
const MEMORY: u64 = 4 << 30;
/// Bytes of an answer: a header's layouts have some hundred thousand.
const LONGEST: u64 = 64 << 20;

/// What is said of a crash that libclang has caught itself.
const CAUGHT: &str = "`libclang` crashed";

/// What the child says.
#[derive(Serialize, Deserialize)]
enum Answer {
    Found(Box<Declared>),
    Parse(String),
    Endless,
    Deep,
    Missing(String),
    Scratch(String),
    Other(String),
}

/// What libclang says of the header whose translation unit lies in `folder`.
pub(crate) fn read(source: &Source, folder: &Path, watcher: &Watcher) -> Result<Declared, Error> {
    let limit = source.time_limit();
    let path = || source.path().to_owned();
    let broke_down = |why: String| Error::BrokeDown {
        path: path(),
        what: "libclang".to_owned(),
        why,
    };
    let work = || serde_json::to_vec(&answer(clang::read(source, folder))).unwrap_or_default();
    let answer = match forked(limit, watcher, work)? {
        Ending::Answer(bytes) => serde_json::from_slice(&bytes),
        Ending::Time => {
            return Err(Error::Time {
                what: "libclang".to_owned(),
                seconds: limit.as_secs(),
            });
        }
        Ending::Signal(signal) => {
            return Err(broke_down(format!("it crashed with signal {signal}")));
        }
        Ending::Status(status) => {
            let why = format!("it ended its process with status {status}");
            return Err(broke_down(why));
        }
    };
    match answer.map_err(|error| broke_down(format!("its answer does not parse: {error}")))? {
        Answer::Found(declared) => Ok(*declared),
        Answer::Parse(messages) if messages == CAUGHT => Err(broke_down("it crashed".to_owned())),
        Answer::Parse(messages) => Err(Error::Parse {
            path: path(),
            messages,
        }),
        Answer::Endless => Err(Error::Endless { path: path() }),
        Answer::Deep => Err(Error::Deep),
        Answer::Missing(why) => Err(Error::Missing(why)),
        Answer::Scratch(why) => Err(io::Error::other(why).into()),
        Answer::Other(why) => Err(broke_down(why)),
    }
}

fn answer(outcome: Result<Declared, Error>) -> Answer {
    match outcome {
        Ok(declared) => Answer::Found(Box::new(declared)),
        Err(Error::Parse { messages, .. }) => Answer::Parse(messages),
        Err(Error::Endless { .. }) => Answer::Endless,
        Err(Error::Deep) => Answer::Deep,
        Err(Error::Missing(why)) => Answer::Missing(why),
        Err(Error::Scratch(why)) => Answer::Scratch(why.to_string()),
        Err(other) => Answer::Other(other.to_string()),
    }
}

/// How a child ended.
enum Ending {
    Answer(Vec<u8>),
    Time,
    Signal(i32),
    Status(i32),
}

/// Runs `work` in a child, and gives what it made.
fn forked(
    limit: Duration,
    watcher: &Watcher,
    work: impl FnOnce() -> Vec<u8>,
) -> io::Result<Ending> {
    let (mut ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(Duration::from_millis(20)))?;
    let memory = MEMORY.saturating_add(address_space());
    // SAFETY: the child keeps to what the head of this file says, and never returns from here.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(ours);
        in_child(theirs, memory, watcher, work);
    }
    drop(theirs);
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    watcher.over(u32::try_from(child).ok());
    let end = Instant::now() + limit;
    let mut bytes = Vec::new();
    let mut ended = None;
    let ending = loop {
        let mut chunk = [0; 1 << 16];
        match ours.read(&mut chunk) {
            // Closed by a child that is about to end, or by one that has.
            Ok(0) if ended.is_none() => ended = Some(collected(child, 0)?),
            Ok(0) => {}
            Ok(count) if bytes.len() as u64 + count as u64 <= LONGEST => {
                bytes.extend_from_slice(&chunk[..count]);
                continue;
            }
            Ok(_) => break Ending::Time,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // Another fork of this process may hold the other end open.
            Err(_) if ended.is_none() => {
                ended = match collected(child, libc::WNOHANG)? {
                    Ending::Time => None,
                    ended => Some(ended),
                };
                if ended.is_some() {
                    // What it wrote before is there now.
                    continue;
                }
            }
            Err(_) => {}
        }
        match ended.take() {
            Some(Ending::Status(0)) => break Ending::Answer(bytes),
            Some(other) => break other,
            None if Instant::now() >= end => break Ending::Time,
            None => {}
        }
    };
    if matches!(ending, Ending::Time) {
        // Itself too, where it has not come to lead its group.
        for target in [child, -child] {
            // SAFETY: kill touches no memory, and the child has not been collected.
            unsafe { libc::kill(target, libc::SIGKILL) };
        }
        let _ = collected(child, 0);
    }
    watcher.over(None);
    Ok(ending)
}

/// How the child ended; [`Ending::Time`] where it has not.
fn collected(child: libc::pid_t, how: libc::c_int) -> io::Result<Ending> {
    let mut status = 0;
    loop {
        // SAFETY: one word, alive.
        match unsafe { libc::waitpid(child, &raw mut status, how) } {
            0 => return Ok(Ending::Time),
            found if found == child => break,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(match libc::WIFSIGNALED(status) {
        true => Ending::Signal(libc::WTERMSIG(status)),
        false => Ending::Status(libc::WEXITSTATUS(status)),
    })
}

/// Everything that the child does.
fn in_child(
    mut answer: UnixStream,
    memory: u64,
    watcher: &Watcher,
    work: impl FnOnce() -> Vec<u8>,
) -> ! {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: limits this process alone; a crash is told anyway, and needs no core file.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    // SAFETY: concerns this process alone, which is to lead a group.
    unsafe { libc::setpgid(0, 0) };
    #[cfg(target_os = "linux")]
    // SAFETY: asks for a signal when the parent's thread ends.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)
    };
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT] {
        // SAFETY: the handlers of the parent's runtime are of no use here.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    if let Some(pipe) = watcher.descriptor() {
        // SAFETY: the end of the parent's pipe is not used here: the watcher is to see the parent's end, not this one's.
        unsafe { libc::close(pipe) };
    }
    // libclang tells of its crash, and nobody reads its standard output.
    if let Ok(nowhere) = std::fs::File::options().write(true).open("/dev/null") {
        for stream in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // SAFETY: both are descriptors of this process.
            unsafe { libc::dup2(nowhere.as_raw_fd(), stream) };
        }
    }
    // The clock is the other limit where this one is refused.
    let _ = tool::limit_memory(memory);
    let status = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(bytes) => i32::from(answer.write_all(&bytes).is_err()),
        Err(_) => 101,
    };
    // SAFETY: ends the process at once, without what the parent has to do at its end.
    unsafe { libc::_exit(status) }
}

/// The address space that this process has, as far as the system tells it.
fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').next().and_then(|pages| pages.parse().ok());
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.unwrap_or(0_u64) * u64::try_from(page).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn run(limit: Duration, work: impl FnOnce() -> Vec<u8>) -> Ending {
        forked(limit, &Watcher::start(None), work).unwrap()
    }

    #[test]
    fn answers_come_back_whole() {
        let long = vec![7; 300_000];
        let Ending::Answer(bytes) = run(LIMIT, || long.clone()) else {
            panic!("no answer");
        };
        assert_eq!(bytes, long);
    }

    #[test]
    fn a_crash_and_a_hang_are_told() {
        // SAFETY: ends the child.
        let crash = || unsafe { libc::abort() };
        assert!(matches!(run(LIMIT, crash), Ending::Signal(libc::SIGABRT)));
        let hang = || {
            std::thread::sleep(Duration::from_secs(60));
            vec![]
        };
        let start = Instant::now();
        assert!(matches!(
            run(Duration::from_millis(200), hang),
            Ending::Time
        ));
        assert!(start.elapsed() < LIMIT);
    }
}
