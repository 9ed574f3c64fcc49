//! Who runs handlers' tasks: the host's thread pool, or an executor of the program's.

use xla_ffi_sys::{Error, ErrorCode, Result};

/// Runs handlers' tasks in place of the runtime's thread pool: a program's own threads.
///
/// ```
/// use xla_ffi_runtime::Executor;
///
/// /// A thread for each task.
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
    /// Runs the task once, soon, on a thread that does not wait for others of these tasks. Not here: the
    /// handler that asks may wait for it. Neither the task nor this function panics.
    fn execute(&self, task: Box<dyn FnOnce() + Send>);

    /// How many tasks it runs at a time, as handlers are told; they are told of one where it says none.
    fn num_threads(&self) -> usize;
}

/// Who runs the tasks of a call.
pub(crate) enum Tasks<'c> {
    /// The runtime.
    Pool(&'c ThreadPool),
    /// The program.
    Executor(&'c dyn Executor),
}

impl Tasks<'_> {
    /// How many threads there are, as handlers are told.
    pub(crate) fn size(&self) -> usize {
        let threads = match self {
            Self::Pool(pool) => pool.size(),
            Self::Executor(executor) => executor.num_threads(),
        };
        // Handlers divide by it, and count with a sign.
        threads.clamp(1, isize::MAX as usize)
    }

    /// Runs `task` on another thread. A panic in it may end the process.
    pub(crate) fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        match self {
            Self::Pool(pool) => pool.spawn(task),
            Self::Executor(executor) => executor.execute(Box::new(task)),
        }
    }
}

/// Threads that run handlers' tasks; never the thread that calls the handler.
pub(crate) struct ThreadPool {
    threads: rayon_core::ThreadPool,
}

impl ThreadPool {
    pub(crate) fn new(threads: usize) -> Result<Self> {
        let threads = rayon_core::ThreadPoolBuilder::new()
            .num_threads(threads.max(1))
            .thread_name(|index| format!("xla-ffi-pool-{index}"))
            .build()
            .map_err(|error| {
                Error::new(ErrorCode::ResourceExhausted, "the thread pool cannot start")
                    .with_source(error)
            })?;
        Ok(Self { threads })
    }

    pub(crate) fn size(&self) -> usize {
        self.threads.current_num_threads()
    }

    /// Runs `task` on a thread of the pool, in the order of the calls. A panic in it ends the process.
    pub(crate) fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.threads.spawn_fifo(task);
    }
}
