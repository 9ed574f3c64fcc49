//! Threads that run the futures of `async fn` handlers.
//!
//! A waker hands its future over and returns: whoever wakes may hold a lock that the future takes, and
//! after the handler's return the host's pool, which belongs to the call, cannot be asked.
//!
//! * Threads are started on demand: one for each job that no thread waits for, up to [`MOST`]. So jobs that
//!   block, even on each other, do not stop others. Where the system starts not even one, all jobs that wait
//!   are refused.
//! * A thread that has had nothing to do for [`IDLE`] ends.
//! * A forked child has none of its parent's threads: there, jobs are refused if the parent has run any.
//! * A library with threads must not be unmapped under them: the first thread pins it
//!   (`RTLD_NODELETE`), so that `dlclose` leaves it where it is. Joining the threads when the library
//!   goes would wait for users' code with the loader's lock held.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};

/// What a thread is asked to do. It destroys what it holds itself, and does not unwind.
pub(crate) trait Job: Send {
    /// Does it.
    fn run(self: Box<Self>);

    /// Ends it where no thread can run it. Whoever hands over a job does this, to those of others too: nobody else is there.
    fn refuse(self: Box<Self>, why: Error);
}

/// Threads at once.
const MOST: usize = 512;

/// After which time without a job a thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// As threads usually have.
const STACK: usize = 8 << 20;

#[derive(Default)]
struct Executor {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Box<dyn Job>>,
    /// All threads, those that are about to begin included.
    threads: usize,
    /// Those that wait for a job.
    waiting: usize,
}

/// Has a thread run `job` soon.
#[cfg(not(loom))]
pub(crate) fn run(job: Box<dyn Job>) {
    static CURRENT: OnceLock<(u32, Executor)> = OnceLock::new();
    let (process, executor) = CURRENT.get_or_init(|| {
        pin();
        (std::process::id(), Executor::default())
    });
    match refuse_forked(*process) {
        Ok(()) => executor.take(job),
        Err(forked) => job.refuse(forked),
    }
}

/// Refuses in a child of the process that started the threads.
pub(crate) fn refuse_forked(starter: u32) -> Result<()> {
    if std::process::id() == starter {
        return Ok(());
    }
    Err(Error::failed_precondition(
        "this process was forked after the library started threads; use spawn or forkserver",
    ))
}

/// In a model each job has a thread.
#[cfg(loom)]
pub(crate) fn run(job: Box<dyn Job>) {
    loom::thread::spawn(|| job.run());
}

impl Executor {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&'static self, job: Box<dyn Job>) {
        let mut state = self.lock();
        state.jobs.push_back(job);
        if state.waiting >= state.jobs.len() || state.threads == MOST {
            drop(state);
            self.changed.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let thread = std::thread::Builder::new()
            .name("xla-ffi-async".to_owned())
            // The completion of a call may run what the host has waiting for it, on this stack.
            .stack_size(STACK);
        if thread.spawn(|| self.serve()).is_err() {
            self.on_missing_thread();
        }
    }

    /// The system did not start a thread.
    #[cold]
    fn on_missing_thread(&self) {
        let mut state = self.lock();
        state.threads -= 1;
        if state.threads > 0 {
            // Those take the jobs when they are done with theirs, or refuse them when they are not started either.
            return;
        }
        let refused = std::mem::take(&mut state.jobs);
        drop(state);
        for job in refused {
            job.refuse(Error::resource_exhausted(
                "the system starts no thread for async handlers; raise its limit on threads (`ulimit -u`, or the container's)",
            ));
        }
    }

    fn serve(&self) {
        while let Some(job) = self.next() {
            // A job does not unwind; if one does, that is no reason to lose count.
            let run = std::panic::AssertUnwindSafe(|| job.run());
            if let Err(panic) = std::panic::catch_unwind(run) {
                let text = crate::error::panics::describe("an async handler", panic);
                crate::error::panics::warn(format_args!("{text}"));
            }
        }
    }

    /// The next job; `None` where the thread is to end.
    fn next(&self) -> Option<Box<dyn Job>> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state.waiting += 1;
            let woken = self.changed.wait_timeout(state, IDLE);
            let (woken, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.waiting -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

/// Keeps the library in memory for the rest of the process, since it has threads that would run on without it.
pub(crate) fn pin() {
    static PINNED: AtomicBool = AtomicBool::new(false);
    if !PINNED.swap(true, Ordering::Relaxed) {
        pin_now();
    }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn pin_now() {
    use libc::{RTLD_LAZY, RTLD_NODELETE, RTLD_NOLOAD};

    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let here = (pin_now as fn() as *const ()).cast();
    // SAFETY: dladdr writes `info` where it knows the address.
    if unsafe { libc::dladdr(here, info.as_mut_ptr()) } == 0 {
        return;
    }
    // SAFETY: written by dladdr.
    let info = unsafe { info.assume_init() };
    // What is in memory already is not loaded again; where this is the program itself there may be
    // nothing of that name, and nothing to pin.
    // SAFETY: a C string of the loader's.
    unsafe { libc::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) };
}

/// Elsewhere the threads' own counts on the library have to do.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn pin_now() {}
