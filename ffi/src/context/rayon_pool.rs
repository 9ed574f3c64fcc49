//! Rayon thread pools for handlers: one pool per size, created on first use.
//!
//! - A pool is created once and kept, because creating a pool takes longer than most calls. The library is then
//!   pinned, because the pool's threads would otherwise outlive its code.
//! - A forked child process has none of its parent's threads, so using the parent's pools in the child is an error.
//! - A worker of a different rayon pool runs other work of its pool while it waits. That work could be a call of the
//!   same handler, on the first call's stack and while it holds locks. Workers of other pools therefore wait for a
//!   new thread instead.

use std::panic::resume_unwind;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::ThreadPool;
use crate::error::{Error, ErrorCode, Result};
use crate::future::executor::refuse_forked;
use rayon_core::ThreadPoolBuilder;

/// Returns the rayon pool with `threads` threads, and creates the pool if necessary.
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
    /// Runs `work` in a rayon pool with as many threads as the host's pool, and waits until `work` returns. Requires
    /// the feature `rayon`.
    ///
    /// Rayon loops in `work`, and in libraries that it calls, run on these threads. Without this method, they run on
    /// rayon's global pool, which has a thread per processor. The host may be configured to use fewer threads.
    ///
    /// The pool is created by the first call and kept. Each library that is built with rayon has one pool per size.
    /// All calls share the pool's threads, so at most [`num_threads`](Self::num_threads) calls run at the same time.
    /// Callers sleep while they wait.
    ///
    /// This method cannot be called from the host's pool. A [`ThreadPool`] is neither `Send` nor `Sync`, so loop
    /// bodies and tasks cannot use it.
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
    /// A call inside a loop on the host's pool does not compile:
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
    /// - [`ErrorCode::ResourceExhausted`](crate::ErrorCode::ResourceExhausted) if the system cannot start threads.
    /// - [`ErrorCode::FailedPrecondition`](crate::ErrorCode::FailedPrecondition) if the process was forked after the
    ///   library used a rayon pool.
    ///
    /// # Panics
    /// If `work` panics.
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
