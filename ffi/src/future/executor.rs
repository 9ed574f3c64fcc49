//! Threads that run the futures of `async fn` handlers: the program's, where the host has some for them, else this library's.
//!
//! A waker hands its future over and returns: whoever wakes may hold a lock that the future takes, and
//! after the handler's return the host's pool, which belongs to the call, cannot be asked.
//!
//! * Threads are started on demand: one for each job that no thread waits for, up to [`MOST_THREADS`]. So jobs that
//!   block, even on each other, do not stop others. Where the system starts not even one, all jobs that wait
//!   are refused.
//! * Once all threads are busy, jobs wait. When one has waited for [`STUCK`], a warning says so, once; and when
//!   [`MOST_WAITING`] jobs wait, calls that start are refused. Calls under way are not, so that they can end.
//! * A thread that has had nothing to do for [`IDLE`] ends.
//! * A forked child has none of its parent's threads: there, jobs are refused if the parent has run any.
//! * A library with threads must not be unmapped under them: the first thread pins it
//!   (`RTLD_NODELETE`), so that `dlclose` leaves it where it is. Joining the threads when the library
//!   goes would wait for users' code with the loader's lock held.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::frame::call_handle::CallHandle;

/// What a thread is asked to do. It destroys what it holds itself, and does not unwind.
pub(crate) trait Job: Send {
    /// Does it.
    fn run(self: Box<Self>);

    /// Ends it where no thread can run it. Whoever hands over a job does this, to those of others too: nobody else is there.
    fn refuse(self: Box<Self>, why: Error);
}

/// Threads at once, unless the environment says otherwise.
const MOST_THREADS: (&str, usize) = ("XLA_FFI_ASYNC_THREADS", 512);

/// Jobs that wait for a thread when further calls are refused, unless the environment says otherwise.
const MOST_WAITING: (&str, usize) = ("XLA_FFI_ASYNC_QUEUE", 16384);

/// A limit of the environment's, which is not 0.
#[cfg(not(loom))]
fn limit((variable, default): (&str, usize)) -> usize {
    let given = std::env::var(variable).ok();
    let given = given.and_then(|text| text.parse().ok());
    given.filter(|limit| *limit > 0).unwrap_or(default)
}

/// After which time in the queue a job is worth a warning.
const STUCK: Duration = Duration::from_secs(1);

/// After which time without a job a thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// As threads usually have.
const STACK: usize = 8 << 20;

struct Executor {
    most_threads: usize,
    most_waiting: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// With the time when each began to wait.
    jobs: VecDeque<(Instant, Box<dyn Job>)>,
    /// All threads, those that are about to begin included.
    threads: usize,
    /// Those that wait for a job.
    waiting: usize,
    has_warned: bool,
}

/// Has a thread run `job` soon; a call that `starts` is refused where too many wait.
#[cfg(not(loom))]
pub(crate) fn run(job: Box<dyn Job>, program: &CallHandle, starts: bool) {
    static CURRENT: OnceLock<(u32, Executor)> = OnceLock::new();
    if program.has_threads() {
        let data = Box::into_raw(Box::new(job)).cast();
        // SAFETY: the program has threads; the task takes the box, and any thread may run a job.
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
/// The data is a box of a job, and this is called once with it.
#[cfg(not(loom))]
unsafe extern "C" fn run_job(data: *mut std::ffi::c_void, run: i32) {
    // SAFETY: as promised by the caller.
    let job = unsafe { Box::from_raw(data.cast::<Box<dyn Job>>()) };
    if run != 0 {
        return job.run();
    }
    job.refuse(Error::resource_exhausted(
        "the program's executor dropped the task of this async handler; give it threads or a longer queue",
    ));
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
            // The completion of a call may run what the host has waiting for it, on this stack.
            .stack_size(STACK);
        if thread.spawn(|| self.serve()).is_err() {
            self.on_missing_thread();
        }
    }

    /// Why jobs wait, or are refused.
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
        for (_, job) in refused {
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
