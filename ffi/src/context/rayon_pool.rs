//! Threads of rayon's for handlers: one pool of each size, made when it is first asked for.
//!
//! * A pool is made once and kept: making one takes longer than most calls. A library that has one is pinned, since its threads
//!   would run on without it.
//! * A child process has none of its parent's threads: work that is given to the parent's pool is never done. So a pool belongs
//!   to the process that made it.
//! * A worker of another pool of rayon's, which has to wait, takes up other work of that pool meanwhile. That may be another
//!   call of the same handler, on the stack of the first one and behind its locks. So such a worker waits for a thread instead.

use std::panic::resume_unwind;

use rayon_core::ThreadPoolBuilder;

use super::ThreadPool;
use crate::error::{Error, ErrorCode, Result};
use crate::lasting::Lasting;

/// A pool, and the next one.
struct Kept {
    process: u32,
    threads: usize,
    pool: rayon_core::ThreadPool,
    next: Lasting<Kept>,
}

/// The pool of so many threads. Nothing here is held for long, so that a child process finds nothing held.
fn pool(threads: usize) -> Result<&'static rayon_core::ThreadPool> {
    static FIRST: Lasting<Kept> = Lasting::new();
    let process = std::process::id();
    let mut place = &FIRST;
    let mut made = None;
    loop {
        match place.get() {
            Some(kept) if kept.process == process && kept.threads == threads => {
                return Ok(&kept.pool);
            }
            Some(kept) => place = &kept.next,
            None => {
                let new = made
                    .take()
                    .map_or_else(|| Kept::new(process, threads), Ok)?;
                // Where another thread was first, its pool may be the one that is wanted, and ours ends.
                made = place.set(new).err();
            }
        }
    }
}

impl Kept {
    fn new(process: u32, threads: usize) -> Result<Box<Self>> {
        crate::entry::pin::pin();
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("xla-ffi-rayon-{index}"))
            .build()
            .map_err(|error| {
                let text = format!("no {threads} threads for rayon: {error}");
                Error::new(ErrorCode::ResourceExhausted, text)
            })?;
        Ok(Box::new(Self {
            process,
            threads,
            pool,
            next: Lasting::new(),
        }))
    }
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
    ///     let y = y.copy_from(&x)?;
    ///     pool.rayon(|| y.par_sort_unstable_by(f32::total_cmp))
    /// }
    ///
    /// # use xla_ffi::internal::{self, Shape, Tensor};
    /// let x = Tensor::from_slice([4], &[3.0_f32, -1.0, 4.0, 1.0])?;
    /// let shape = x.shape().clone();
    /// let call = internal::call::<sorted>("{}")?.arg(x).ret(shape);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![-1.0_f32, 1.0, 3.0, 4.0]));
    /// # Ok::<(), internal::Error>(())
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
    /// [`ErrorCode::ResourceExhausted`](crate::ErrorCode::ResourceExhausted) when the system starts no threads.
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
