//! Threads of rayon's for handlers: one pool of each size, made when it is first asked for.
//!
//! * A pool is made once and kept: making one takes longer than most calls. A library that has one is pinned, since its threads
//!   would run on without it.
//! * A forked child has none of its parent's threads: there, the pools of the parent are refused.
//! * A worker of another pool of rayon's, which has to wait, takes up other work of that pool meanwhile. That may be another
//!   call of the same handler, on the stack of the first one and behind its locks. So such a worker waits for a thread instead.

use std::panic::resume_unwind;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::ThreadPool;
use crate::error::{Error, ErrorCode, Result};
use crate::future::executor::refuse_forked;
use rayon_core::ThreadPoolBuilder;

/// The pool of so many threads.
fn pool(threads: usize) -> Result<&'static rayon_core::ThreadPool> {
    static STARTER: OnceLock<u32> = OnceLock::new();
    static POOLS: Mutex<Vec<(usize, &rayon_core::ThreadPool)>> = Mutex::new(Vec::new());
    refuse_forked(*STARTER.get_or_init(std::process::id))?;
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, pool)) = pools.iter().find(|(size, _)| *size == threads) {
        return Ok(pool);
    }
    crate::future::executor::pin();
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("xla-ffi-rayon-{index}"))
        .build()
        .map_err(|error| {
            let text = format!("no {threads} threads for rayon: {error}");
            Error::new(ErrorCode::ResourceExhausted, text)
        })?;
    let pool: &'static rayon_core::ThreadPool = Box::leak(Box::new(pool));
    pools.push((threads, pool));
    Ok(pool)
}

impl ThreadPool<'_> {
    /// Runs `work` on a thread of rayon's, in a pool that has as many threads as the host's, and waits for it: loops of rayon's in it, and
    /// in libraries that it calls, are shared among these threads. With the feature `rayon`.
    ///
    /// Without it, they run on rayon's global pool, which has a thread for each processor whatever the host was told to use.
    /// This pool is made with the first call and kept: one for each size, in each library that was built with rayon. All calls
    /// share its threads, so that no more than [`num_threads`](Self::num_threads) of them are at work however many calls
    /// there are; those that wait for their work sleep meanwhile.
    ///
    /// It is never nested in the host's pool: a [`ThreadPool`] is neither `Send` nor `Sync`, so that no loop body or task on the
    /// host's threads can call this.
    ///
    /// ```
    /// use rayon::prelude::*;
    /// use xla_ffi::prelude::*;
    ///
    /// #[xla_ffi::handler]
    /// fn sorted(x: Buffer<f32, 1>, mut y: Out<f32, 1>, pool: ThreadPool) -> Result<()> {
    ///     let y = y.write_with(|i| x[i]);
    ///     pool.rayon(|| y.par_sort_unstable_by(f32::total_cmp))
    /// }
    ///
    /// # use xla_ffi::embed::{self, Shape, Tensor};
    /// let x = Tensor::from_slice([4], &[3.0_f32, -1.0, 4.0, 1.0])?;
    /// let shape = x.shape().clone();
    /// let call = embed::call::<sorted>("{}")?.arg(x).ret(shape);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![-1.0_f32, 1.0, 3.0, 4.0]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// In a loop on the host's pool it does not compile:
    ///
    /// ```compile_fail,E0277
    /// use xla_ffi::prelude::*;
    ///
    /// #[xla_ffi::handler]
    /// fn nested(pool: ThreadPool) -> Result<()> {
    ///     pool.for_each(8, |_| pool.rayon(|| ()).unwrap());
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`ErrorCode::ResourceExhausted`](crate::ErrorCode::ResourceExhausted) when the system starts no threads,
    /// [`ErrorCode::FailedPrecondition`](crate::ErrorCode::FailedPrecondition) in a process that was forked after the library
    /// used such a pool.
    ///
    /// # Panics
    /// When `work` panics.
    pub fn rayon<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R> {
        let pool = pool(self.num_threads())?;
        let is_worker = rayon_core::current_thread_index().is_some();
        if !is_worker || pool.current_thread_index().is_some() {
            return Ok(pool.install(work));
        }
        std::thread::scope(|scope| {
            let waiting = std::thread::Builder::new()
                .name("xla-ffi-rayon".to_owned())
                .spawn_scoped(scope, || pool.install(work))
                .map_err(|error| {
                    let text = format!("no thread to wait for rayon: {error}");
                    Error::new(ErrorCode::ResourceExhausted, text)
                })?;
            Ok(waiting.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    }
}
