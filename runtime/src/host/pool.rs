//! Executors of handlers' tasks: the thread pool of a runtime, or an executor of the program.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Runs handlers' tasks on threads of the program instead of the runtime's thread pool.
///
/// ```
/// use xla_ffi_runtime::Executor;
///
/// /// Starts a thread per task.
/// struct Threads;
///
/// impl Executor for Threads {
///     fn execute(&self, task: Box<dyn FnOnce() + Send>) {
///         std::thread::spawn(task);
///     }
///
///     fn num_threads(&self) -> usize {
///         std::thread::available_parallelism().map_or(1, usize::from)
///     }
/// }
/// assert!(Threads.num_threads() > 0);
/// ```
pub trait Executor: Send + Sync {
    /// Runs the task once, soon, on a thread that does not wait for other tasks. The task must not run on the calling
    /// thread, because the handler may wait for the task. This function must not panic.
    fn execute(&self, task: Box<dyn FnOnce() + Send>);

    /// Returns the number of tasks that can run at the same time. Handlers can query this number; 0 is reported as 1.
    fn num_threads(&self) -> usize;
}

/// The executor that runs the tasks of a call.
pub(crate) enum Tasks<'c> {
    /// The thread pool of the runtime.
    Pool(&'c ThreadPool),
    /// An executor of the program.
    Executor(&'c dyn Executor),
}

impl Tasks<'_> {
    /// Returns the number of threads, as handlers receive it.
    pub(crate) fn size(&self) -> usize {
        let threads = match self {
            Self::Pool(pool) => pool.size(),
            Self::Executor(executor) => executor.num_threads(),
        };
        // The number must be at least 1 and fit a signed type, because handlers divide by it.
        threads.clamp(1, isize::MAX as usize)
    }

    /// Runs `task` on a different thread. A panic of the task may end the process.
    pub(crate) fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        match self {
            Self::Pool(pool) => pool.spawn(task),
            Self::Executor(executor) => executor.execute(Box::new(task)),
        }
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// The tasks that no thread has started; a `None` makes the threads exit.
struct Queue {
    tasks: Mutex<VecDeque<Option<Task>>>,
    changed: Condvar,
}

impl Queue {
    fn push(&self, task: Option<Task>) {
        self.lock().push_back(task);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Option<Task>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let waiting = self
                .changed
                .wait_while(self.lock(), |tasks| tasks.is_empty());
            let task = waiting.unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(task) = task.flatten() else {
                // The new `None` makes the next thread exit.
                return self.push(None);
            };
            // The panic hook has already printed the message of the panic.
            std::panic::catch_unwind(AssertUnwindSafe(task))
                .unwrap_or_else(|_| std::process::abort());
        }
    }
}

/// Threads that run handlers' tasks. The thread that calls the handler is never part of the pool.
pub(crate) struct ThreadPool {
    queue: Arc<Queue>,
    size: usize,
}

impl ThreadPool {
    pub(crate) fn new(threads: usize) -> Result<Self> {
        let queue = Arc::new(Queue {
            tasks: Mutex::default(),
            changed: Condvar::new(),
        });
        let size = threads.max(1);
        // If a thread cannot start, dropping `pool` ends the threads that have started.
        let pool = Self { queue, size };
        for index in 0..size {
            let queue = pool.queue.clone();
            let thread = std::thread::Builder::new().name(format!("xla-ffi-pool-{index}"));
            thread.spawn(move || queue.run()).map_err(|error| {
                Error::new(ErrorCode::ResourceExhausted, "the thread pool cannot start")
                    .with_source(error)
            })?;
        }
        Ok(pool)
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Runs `task` on a thread of the pool. Tasks start in the order in which they are passed. A panic of a task ends
    /// the process.
    pub(crate) fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.queue.push(Some(Box::new(task)));
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.queue.push(None);
    }
}
