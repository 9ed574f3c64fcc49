//! Threads that run the futures of `async fn` handlers.
//!
//! A waker hands its future over and returns: whoever wakes may hold a lock that the future takes, and
//! after the handler's return the host's pool, which belongs to the call, cannot be asked.
//!
//! * Threads are started on demand, the first with the first job. There are as many at work as the
//!   machine has processors; one that blocks keeps its place. While all of them are at work and jobs
//!   wait, one more thread stands by: when no job has been taken for [`STALL`] it takes one, and the
//!   next stands by. So jobs that block, even on each other, stop nobody, and there is no bound but the
//!   system's. Where it starts not even one, all jobs that wait are refused.
//! * A thread that has had nothing to do for [`IDLE`] ends, the last one excepted.
//! * A forked child has none of its parent's threads: there, jobs are refused if the parent has run any.
//! * A library with threads must not be unmapped under them: the first thread pins it
//!   (`RTLD_NODELETE`), so that `dlclose` leaves it where it is. Joining the threads when the library
//!   goes would wait for users' code with the loader's lock held.

use std::collections::VecDeque;
#[cfg(not(loom))]
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

#[cfg(not(loom))]
use crate::entry::pin;
use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex, MutexGuard, thread};

/// What a thread is asked to do. It destroys what it holds itself, and does not unwind.
pub(crate) trait Job: Send {
    /// Does it.
    fn run(self: Box<Self>);

    /// Ends it where no thread can run it. Whoever hands over a job does this, to those of others too: nobody else is there.
    fn refuse(self: Box<Self>, why: Error);
}

/// After which time without progress one more thread takes a job.
const STALL: Duration = Duration::from_millis(2);

/// After which time without a job a thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// As threads usually have.
const STACK: usize = 8 << 20;

struct Executor {
    /// How many threads work before anybody is thought to be blocked.
    processors: usize,
    /// Has the system start a thread; tests have others.
    spawn: fn(&'static Self) -> std::io::Result<()>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    jobs: VecDeque<Box<dyn Job>>,
    /// When the last job was taken, or came where there was none.
    moved: Instant,
    /// Threads that run jobs.
    working: usize,
    /// All other threads, those that are about to begin included. Invariant: where there are jobs, there
    /// is such a thread, unless the system refused to start one.
    waiting: usize,
    /// The model is over: all threads end.
    #[cfg(loom)]
    over: bool,
}

/// Has a thread run `job` soon.
#[cfg(not(loom))]
pub(crate) fn run(job: Box<dyn Job>) {
    static CURRENT: OnceLock<(u32, Executor)> = OnceLock::new();
    let (process, executor) = CURRENT.get_or_init(|| {
        pin::pin();
        (std::process::id(), Executor::new())
    });
    match refuse_forked(*process) {
        Ok(()) => executor.take(job),
        Err(forked) => job.refuse(forked),
    }
}

/// Refuses to use threads that another process has started: a forked child has none of its parent's.
///
/// # Errors
/// `FAILED_PRECONDITION` in any other process than `starter`.
#[cfg_attr(loom, expect(dead_code, reason = "models do not fork"))]
pub(crate) fn refuse_forked(starter: u32) -> Result<()> {
    if std::process::id() == starter {
        return Ok(());
    }
    Err(Error::failed_precondition(
        "this process was forked after the library started threads; use spawn or forkserver",
    ))
}

/// For the models of others: each job has a thread.
#[cfg(loom)]
pub(crate) fn run(job: Box<dyn Job>) {
    thread::spawn(|| job.run());
}

impl Executor {
    fn new() -> Self {
        Self {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            spawn: Self::spawn,
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                moved: Instant::now(),
                working: 0,
                waiting: 0,
                #[cfg(loom)]
                over: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// As [`run`].
    fn take(&'static self, job: Box<dyn Job>) {
        let mut state = self.lock();
        if state.jobs.is_empty() {
            state.moved = Instant::now();
        }
        state.jobs.push_back(job);
        if state.waiting > 0 {
            drop(state);
            self.changed.notify_one();
            return;
        }
        state.waiting += 1;
        drop(state);
        self.start();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread that `waiting` counts already.
    fn start(&'static self) {
        if (self.spawn)(self).is_ok() {
            return;
        }
        let mut state = self.lock();
        state.waiting -= 1;
        if state.working + state.waiting > 0 {
            // Those take the jobs when they are done with theirs, or refuse them when they are not started either.
            return;
        }
        // Others may have left theirs to the thread that was to be.
        let refused = std::mem::take(&mut state.jobs);
        drop(state);
        for job in refused {
            job.refuse(Error::resource_exhausted(
                "the system starts no thread for async handlers; raise its limit on threads (`ulimit -u`, or the container's)",
            ));
        }
    }

    fn spawn(&'static self) -> std::io::Result<()> {
        let thread = thread::Builder::new()
            .name("xla-ffi-async".to_owned())
            // The completion of a call may run what the host has waiting for it, on this stack.
            .stack_size(STACK);
        thread.spawn(|| self.serve()).map(drop)
    }

    /// What a thread does.
    fn serve(&'static self) {
        while let Some((job, alone)) = self.next() {
            if alone {
                self.start();
            }
            // A job does not unwind; if one does, that is no reason to lose count.
            let run = std::panic::AssertUnwindSafe(|| job.run());
            if let Err(panic) = std::panic::catch_unwind(run) {
                let text = crate::entry::panics::describe("an async handler", panic);
                crate::entry::panics::tell(format_args!("{text}"));
            }
            let mut state = self.lock();
            state.working -= 1;
            state.waiting += 1;
        }
    }

    /// The next job for a thread that waits, and whether the thread has to start another one, which
    /// `waiting` counts already; `None` where the thread is to end.
    fn next(&self) -> Option<(Box<dyn Job>, bool)> {
        let mut state = self.lock();
        loop {
            let patience = if state.jobs.is_empty() {
                IDLE
            } else if state.working < self.processors {
                Duration::ZERO
            } else {
                state.stall()
            };
            #[cfg(loom)]
            if state.over {
                return None;
            }
            if patience.is_zero() {
                if let Some(job) = state.jobs.pop_front() {
                    state.moved = Instant::now();
                    state.working += 1;
                    state.waiting -= 1;
                    let more = !state.jobs.is_empty();
                    let alone = more && state.waiting == 0;
                    if alone {
                        state.waiting += 1;
                    }
                    drop(state);
                    if more && !alone {
                        self.changed.notify_one();
                    }
                    return Some((job, alone));
                }
            }
            let (woken, timeout) = self
                .changed
                .wait_timeout(state, patience)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            let last = state.working + state.waiting == 1;
            if timeout.timed_out() && patience == IDLE && state.jobs.is_empty() && !last {
                state.waiting -= 1;
                return None;
            }
        }
    }
}

impl State {
    /// How much longer to wait for those who work.
    fn stall(&self) -> Duration {
        // No model has time: nobody is thought to be blocked.
        if cfg!(loom) {
            return STALL;
        }
        STALL.saturating_sub(self.moved.elapsed())
    }
}

/// A job that is told whether it is run.
#[cfg(test)]
struct Told<F>(F);

#[cfg(test)]
impl<F: FnOnce(bool) + Send> Job for Told<F> {
    fn run(self: Box<Self>) {
        (self.0)(true);
    }

    fn refuse(self: Box<Self>, _: Error) {
        (self.0)(false);
    }
}

/// Every order in which those who hand over jobs and the threads can meet. A wait there has no end but
/// a notification: one that is missing is a deadlock.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Counts what is done.
    #[derive(Default)]
    struct Done(Mutex<usize>, Condvar);

    impl Done {
        fn one_more(&self) {
            *self.0.lock().unwrap() += 1;
            self.1.notify_all();
        }

        fn wait_for(&self, count: usize) {
            let mut done = self.0.lock().unwrap();
            while *done < count {
                done = self.1.wait(done).unwrap();
            }
            assert_eq!(*done, count, "each job runs once");
        }
    }

    fn executor(processors: usize) -> &'static Executor {
        let mut executor = Executor::new();
        executor.processors = processors;
        Box::leak(Box::new(executor))
    }

    fn hand_over(executor: &'static Executor, done: &Arc<Done>) {
        let done = done.clone();
        executor.take(Box::new(Told(move |is_run: bool| {
            assert!(is_run);
            done.one_more();
        })));
    }

    /// Hands over two jobs, by two threads, where the system does not start every thread; each is run, or refused.
    fn hand_over_two(spawn: fn(&'static Executor) -> std::io::Result<()>, check: fn(bool)) {
        model(move || {
            let mut executor = Executor::new();
            (executor.processors, executor.spawn) = (2, spawn);
            let (executor, done) = (&*Box::leak(Box::new(executor)), Arc::<Done>::default());
            let hand_over = move |done: Arc<Done>| {
                executor.take(Box::new(Told(move |is_run: bool| {
                    check(is_run);
                    done.one_more();
                })));
            };
            let there = done.clone();
            let other = thread::spawn(move || hand_over(there));
            hand_over(done.clone());
            other.join().unwrap();
            done.wait_for(2);
            end(executor);
        });
    }

    /// Threads lose the processor where they need not at most twice: what takes more is beyond reach.
    fn model(check: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(check);
    }

    fn end(executor: &'static Executor) {
        executor.lock().over = true;
        executor.changed.notify_all();
    }

    #[test]
    fn loom_a_job_that_comes_while_a_thread_goes_idle_is_taken() {
        model(|| {
            let (executor, done) = (executor(1), Arc::<Done>::default());
            hand_over(executor, &done);
            hand_over(executor, &done);
            done.wait_for(2);
            end(executor);
        });
    }

    #[test]
    fn loom_jobs_for_which_there_is_no_thread_are_refused() {
        let no_thread = |_: &'static Executor| Err(std::io::ErrorKind::WouldBlock.into());
        hand_over_two(no_thread, |is_run| assert!(!is_run));
    }

    #[test]
    fn loom_a_thread_that_comes_late_takes_the_jobs_or_they_are_refused() {
        fn late(executor: &'static Executor) -> std::io::Result<()> {
            match executor.lock().jobs.len() {
                0 | 1 => Err(std::io::ErrorKind::WouldBlock.into()),
                _ => executor.spawn(),
            }
        }
        hand_over_two(late, |_| ());
    }

    #[test]
    fn loom_two_threads_hand_over_jobs() {
        model(|| {
            let (executor, done) = (executor(2), Arc::<Done>::default());
            let there = done.clone();
            let other = thread::spawn(move || hand_over(executor, &there));
            hand_over(executor, &done);
            other.join().unwrap();
            done.wait_for(2);
            end(executor);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Barrier};

    fn do_run(job: impl FnOnce() + Send + 'static) {
        run(Box::new(Told(|is_run: bool| {
            assert!(is_run);
            job();
        })));
    }

    /// A job that comes while the system is asked for a thread is left to that, and is not to wait for ever when there is
    /// none.
    #[test]
    fn all_jobs_are_refused_where_the_system_starts_no_thread() {
        static REFUSED: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(Vec::new());
        fn hand_over(executor: &'static Executor, number: usize) {
            executor.take(Box::new(Told(move |is_run: bool| {
                assert!(!is_run);
                REFUSED.lock().unwrap().push(number);
            })));
        }
        fn no_thread(executor: &'static Executor) -> std::io::Result<()> {
            let waiting = executor.lock().jobs.len();
            for number in waiting..3 {
                hand_over(executor, number);
            }
            Err(std::io::ErrorKind::WouldBlock.into())
        }
        let mut executor = Executor::new();
        executor.spawn = no_thread;
        let executor: &'static Executor = Box::leak(Box::new(executor));
        hand_over(executor, 0);
        assert_eq!(*REFUSED.lock().unwrap(), [0, 1, 2]);
        // A later one finds no thread either, and says so.
        hand_over(executor, 3);
        assert_eq!(
            REFUSED
                .lock()
                .unwrap()
                .iter()
                .filter(|job| **job == 3)
                .count(),
            1
        );
        let state = executor.lock();
        assert_eq!((state.jobs.len(), state.working, state.waiting), (0, 0, 0));
    }

    #[test]
    fn jobs_that_block_do_not_stop_others() {
        let jobs = 4 * Executor::new().processors.max(4);
        let together = Arc::new(Barrier::new(jobs + 1));
        for _ in 0..jobs {
            let together = Arc::clone(&together);
            do_run(move || {
                together.wait();
            });
        }
        together.wait();
    }

    #[test]
    fn every_job_runs_once_whoever_hands_it_over() {
        let (done, told) = channel();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let done = done.clone();
                scope.spawn(move || {
                    for number in 0..500 {
                        let done = done.clone();
                        do_run(move || done.send(thread * 500 + number).unwrap());
                    }
                });
            }
        });
        let mut all: Vec<i32> = told.iter().take(4000).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..4000));
    }

    #[test]
    fn a_job_that_unwinds_loses_no_thread() {
        let (done, told) = channel();
        for _ in 0..20 {
            do_run(|| panic!("in a job"));
        }
        do_run(move || done.send(7).unwrap());
        assert_eq!(told.recv(), Ok(7));
    }
}
