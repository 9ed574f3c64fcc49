//! The host's thread pool.

use crate::{Code, Error, Result};

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
                Error::new(Code::ResourceExhausted, "the thread pool cannot start")
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
