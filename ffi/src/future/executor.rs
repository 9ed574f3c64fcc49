//! Threads that run the futures of `async fn` handlers: the program's threads if the host provides them, otherwise
//! threads of this library.
//!
//! A waker queues its future and returns, because the waking thread may hold a lock that the future acquires. The
//! host's thread pool belongs to the call, so it cannot be used after the handler's return.
//!
//! * Threads are started on demand: one for each job that no idle thread can run, up to [`MOST_THREADS`]. Blocking
//!   jobs therefore do not stop other jobs, even if they wait for each other. If the system cannot start even one
//!   thread, all waiting jobs are refused.
//! * Once all threads are busy, jobs wait. The first time that a job has waited for [`STUCK`], a warning is printed.
//!   When [`MOST_WAITING`] jobs wait, new calls are refused. Running calls are not refused, so that they can end.
//! * A thread ends after it has had no job for [`IDLE`].
//! * A forked child has none of its parent's threads. If the parent has started threads, jobs are refused in the
//!   child.
//! * A library must not be unmapped while it has threads. The first thread pins the library (`RTLD_NODELETE`), so
//!   that `dlclose` does not unmap it. Joining the threads during unloading would wait for users' code with the
//!   loader's lock held.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::frame::call_handle::CallHandle;

/// A job for a thread of the executor. A job destroys its own data and does not unwind.
pub(crate) trait Job: Send {
    /// Runs the job on a thread of the executor.
    fn run(self: Box<Self>);

    /// Ends the job if no thread can run it. The submitting thread calls this method, even for other threads' jobs,
    /// because no thread of the executor exists.
    fn refuse(self: Box<Self>, why: Error);
}

/// The environment variable for the maximum number of threads, and the default number.
const MOST_THREADS: (&str, usize) = ("XLA_FFI_ASYNC_THREADS", 512);

/// The environment variable for the number of waiting jobs at which new calls are refused, and the
/// default number.
const MOST_WAITING: (&str, usize) = ("XLA_FFI_ASYNC_QUEUE", 16384);

/// Returns a limit from an environment variable. Returns the default if the variable is not set or
/// is 0.
#[cfg(not(loom))]
fn limit((variable, default): (&str, usize)) -> usize {
    let given = std::env::var(variable).ok();
    let given = given.and_then(|text| text.parse().ok());
    given.filter(|limit| *limit > 0).unwrap_or(default)
}

/// The waiting time after which a job causes a warning.
const STUCK: Duration = Duration::from_secs(1);

/// The time after which a thread without a job ends.
const IDLE: Duration = Duration::from_secs(10);

/// The stack size of each thread in bytes.
const STACK: usize = 8 << 20;

struct Executor {
    most_threads: usize,
    most_waiting: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The waiting jobs, each with the time at which it started to wait.
    jobs: VecDeque<(Instant, Box<dyn Job>)>,
    /// The number of threads, including those that are about to start.
    threads: usize,
    /// The number of threads that wait for a job.
    waiting: usize,
    has_warned: bool,
}

/// Queues `job` for a thread. If too many jobs are waiting, a job that starts a call (`starts`) is refused.
#[cfg(not(loom))]
pub(crate) fn run(job: Box<dyn Job>, program: &CallHandle, starts: bool) {
    static CURRENT: OnceLock<(u32, Executor)> = OnceLock::new();
    if program.has_threads() {
        let data = Box::into_raw(Box::new(job)).cast();
        // SAFETY: the program has threads; the task takes ownership of the box, and any thread may run a job.
        return unsafe { program.execute(run_job, data) };
    }
    let (process, executor) = CURRENT.get_or_init(|| {
        pin();
        let executor = Executor {
            most_threads: limit(MOST_THREADS),
            most_waiting: limit(MOST_WAITING),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        (std::process::id(), executor)
    });
    match refuse_forked(*process) {
        Ok(()) => executor.take(job, starts),
        Err(forked) => job.refuse(forked),
    }
}

/// # Safety
/// `data` is a box of a job, and the function is called once with this box.
#[cfg(not(loom))]
unsafe extern "C" fn run_job(data: *mut std::ffi::c_void, run: i32) {
    // SAFETY: the caller upholds this function's safety contract.
    let job = unsafe { Box::from_raw(data.cast::<Box<dyn Job>>()) };
    if run != 0 {
        return job.run();
    }
    job.refuse(Error::resource_exhausted(
        "the program's executor dropped the task of this async handler; give it threads or a longer queue",
    ));
}

/// Returns an error in a forked child of the process `starter`, which started the threads.
pub(crate) fn refuse_forked(starter: u32) -> Result<()> {
    if std::process::id() == starter {
        return Ok(());
    }
    Err(Error::failed_precondition(
        "this process was forked after the library started threads; use spawn or forkserver",
    ))
}

/// Runs each job on its own thread, for loom models.
#[cfg(loom)]
pub(crate) fn run(job: Box<dyn Job>, _: &CallHandle, _: bool) {
    loom::thread::spawn(|| job.run());
}

impl Executor {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&'static self, job: Box<dyn Job>, starts: bool) {
        let mut state = self.lock();
        if starts && state.jobs.len() >= self.most_waiting {
            drop(state);
            return job.refuse(Error::resource_exhausted(self.explain()));
        }
        let now = Instant::now();
        state.jobs.push_back((now, job));
        if state.waiting >= state.jobs.len() || state.threads >= self.most_threads {
            let is_stuck = state
                .jobs
                .front()
                .is_some_and(|(since, _)| now - *since > STUCK);
            let warns = is_stuck && !std::mem::replace(&mut state.has_warned, is_stuck);
            drop(state);
            if warns {
                crate::error::panics::warn(format_args!("{}", self.explain()));
            }
            self.changed.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let thread = std::thread::Builder::new()
            .name("xla-ffi-async".to_owned())
            // The completion of a call may run the host's callbacks on this thread's stack.
            .stack_size(STACK);
        if thread.spawn(|| self.serve()).is_err() {
            self.on_missing_thread();
        }
    }

    /// Returns the text that explains why jobs wait or are refused.
    #[cold]
    fn explain(&self) -> String {
        let Self {
            most_threads,
            most_waiting,
            ..
        } = self;
        format!(
            "all {most_threads} threads for async handlers are busy, and up to {most_waiting} calls wait for one; do not \
             block in async handlers, or raise {} and {}",
            MOST_THREADS.0, MOST_WAITING.0
        )
    }

    /// Handles the failure of the system to start a thread. If no other thread exists, refuses all waiting jobs.
    #[cold]
    fn on_missing_thread(&self) {
        let mut state = self.lock();
        state.threads -= 1;
        if state.threads > 0 {
            // Existing threads run the waiting jobs when they are free. Threads that are about to start will run or
            // refuse them.
            return;
        }
        let refused = std::mem::take(&mut state.jobs);
        drop(state);
        for (_, job) in refused {
            job.refuse(Error::resource_exhausted(
                "the system starts no thread for async handlers; raise its limit on threads (`ulimit -u`, or the container's)",
            ));
        }
    }

    fn serve(&self) {
        while let Some(job) = self.next() {
            // Jobs must not unwind. If a job unwinds, the thread count must still be correct.
            let run = std::panic::AssertUnwindSafe(|| job.run());
            if let Err(panic) = std::panic::catch_unwind(run) {
                let text = crate::error::panics::describe("an async handler", panic);
                crate::error::panics::warn(format_args!("{text}"));
            }
        }
    }

    /// Returns the next job, or `None` if the calling thread should end.
    fn next(&self) -> Option<Box<dyn Job>> {
        let mut state = self.lock();
        loop {
            if let Some((_, job)) = state.jobs.pop_front() {
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

/// Keeps the library in memory until the process ends, because the library's threads must not run in unmapped code.
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
    // SAFETY: dladdr writes `info` if the address belongs to a loaded library.
    if unsafe { libc::dladdr(here, info.as_mut_ptr()) } == 0 {
        return;
    }
    // SAFETY: dladdr succeeded, so it wrote `info`.
    let info = unsafe { info.assume_init() };
    // `RTLD_NOLOAD` loads no library. For the program itself, the call may fail, but pinning is not needed.
    // SAFETY: the name is a C string of the loader.
    unsafe { libc::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) };
}

/// Does nothing on other platforms, because the threads hold references to the library.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn pin_now() {}
