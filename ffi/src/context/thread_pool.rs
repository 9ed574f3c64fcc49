//! The host's thread pool.

use std::marker::PhantomData;

use super::{Context, context, parallel};
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::host::Host;
use xla_ffi_sys::{Feature, Revision, XLA_FFI_InvokeContext};

/// The host's pool of CPU threads. Available since r1 (jaxlib 0.4.33); the number of threads is
/// available since r3 (jaxlib 0.4.38).
///
/// A loop runs its chunks on the pool's threads and on the calling thread. The calling thread waits only for chunks
/// that other threads have started. Loops therefore work even with one thread, without a pool, or if tasks start late
/// or never. Each loop allocates memory.
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn squares(x: Buffer<f32>, mut y: Out<f32>, pool: ThreadPool) -> Result<()> {
///     let x = x.as_slice();
///     pool.for_each_chunk(y.as_uninit(), 1024, |start, chunk| {
///         for (offset, y) in chunk.iter_mut().enumerate() {
///             y.write(x[start + offset] * x[start + offset]);
///         }
///     });
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let x: Vec<f32> = (0..5000).map(|i| i as f32).collect();
/// let call = embed::call::<squares>("{}")?
///     .arg(Tensor::from_slice([5000], &x)?)
///     .ret(Shape::new(DType::F32, [5000])?);
/// assert_eq!(call.run()?.rets[0].to_vec::<f32>().unwrap()[4000], 16.0e6);
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ThreadPool<'f> {
    host: Host,
    ctx: *mut XLA_FFI_InvokeContext,
    _call: PhantomData<&'f ()>,
}

impl ThreadPool<'_> {
    /// Returns the number of threads, which is at least 1. If the host does not report the number, returns the number
    /// of processors.
    ///
    /// ```
    /// use xla_ffi::prelude::*;
    ///
    /// #[xla_ffi::handler]
    /// fn threads(pool: ThreadPool, mut y: Out<u64, 0>) -> Result<()> {
    ///     assert_eq!(pool.size()?, pool.num_threads()); // `size` says so when the host does not tell
    ///     y.fill(pool.num_threads() as u64);
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<threads>("{}")?.ret(Shape::new(DType::U64, [])?);
    /// assert!(call.run()?.rets[0].to_vec::<u64>().unwrap()[0] >= 1);
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    #[must_use]
    pub fn num_threads(&self) -> usize {
        self.size()
            .ok()
            .filter(|threads| *threads > 0)
            .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
            .unwrap_or(1)
    }

    /// Returns the number of threads that the host reports. Available since r3 (jaxlib 0.4.38).
    ///
    /// # Errors
    /// [`ErrorCode::Unimplemented`](crate::ErrorCode::Unimplemented) on hosts before r3, and the
    /// host's error if the context has no pool.
    pub fn size(&self) -> Result<usize> {
        // SAFETY: the context belongs to the call, which is valid for 'f.
        let threads = unsafe { self.host.num_threads(self.ctx) }?;
        usize::try_from(threads)
            .map_err(|_| Error::internal(format!("the host reports a pool of {threads} threads")))
    }

    /// Schedules `task` to run later on any thread of the pool. A panic of the task is only printed.
    ///
    /// ```
    /// use xla_ffi::prelude::*;
    ///
    /// #[xla_ffi::handler]
    /// fn elsewhere(pool: ThreadPool, mut y: Out<i64, 0>) -> Result<()> {
    ///     let (sender, receiver) = std::sync::mpsc::channel();
    ///     pool.spawn(move || sender.send(42).unwrap_or_default())?;
    ///     // Waiting needs a second thread in the pool: the loops above do not.
    ///     y.fill(receiver.recv().map_err(|error| error.to_string())?);
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<elsewhere>("{}")?.ret(Shape::new(DType::S64, [])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![42_i64]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Errors
    /// The host's error if the context has no pool.
    pub fn spawn(&self, task: impl FnOnce() + Send + 'static) -> Result<()> {
        let task: Box<Box<dyn FnOnce() + Send>> = Box::new(Box::new(task));
        let data = Box::into_raw(task);
        // SAFETY: the context belongs to the call. `run_boxed` takes ownership of the box, and the
        // host calls `run_boxed` once.
        let scheduled = unsafe { self.host.schedule(self.ctx, run_boxed, data.cast()) };
        if scheduled.is_err() {
            // SAFETY: the host did not accept the task, so this function still owns the box.
            drop(unsafe { Box::from_raw(data) });
        }
        scheduled
    }

    /// Calls `body(i)` for each `i` in `0..count`, in parallel.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use xla_ffi::prelude::*;
    ///
    /// #[xla_ffi::handler]
    /// fn sum(x: Buffer<u64, 1>, mut y: Out<u64, 1>, pool: ThreadPool) -> Result<()> {
    ///     let (each, ranges) = (AtomicU64::new(0), AtomicU64::new(0));
    ///     pool.for_each(x.len(), |i| {
    ///         each.fetch_add(x[i], Ordering::Relaxed);
    ///     });
    ///     // The same with less to share: one addition for 100 elements.
    ///     pool.for_each_range(x.len(), 100, |range| {
    ///         ranges.fetch_add(x[range].iter().sum(), Ordering::Relaxed);
    ///     });
    ///     y.copy_from(&[each.into_inner(), ranges.into_inner()])
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let call = embed::call::<sum>("{}")?
    ///     .arg(Tensor::from_slice([1000], &[2_u64; 1000])?)
    ///     .ret(Shape::new(DType::U64, [2])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2000_u64, 2000]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Panics
    /// If `body` panics. The panic is rethrown after the chunks in progress have ended.
    pub fn for_each(&self, count: usize, body: impl Fn(usize) + Sync) {
        let grain = count.div_ceil(self.num_threads().saturating_mul(4)).max(1);
        self.for_each_range(count, grain, |range| range.for_each(&body));
    }

    /// Calls `body(range)` for ranges of at most `grain` indices that together cover `0..count`, in
    /// parallel.
    ///
    /// # Panics
    /// If `body` panics. The panic is rethrown after the ranges in progress have ended.
    pub fn for_each_range(
        &self,
        count: usize,
        grain: usize,
        body: impl Fn(std::ops::Range<usize>) + Sync,
    ) {
        let grain = grain.max(1);
        let chunks = count.div_ceil(grain);
        let helpers = self.num_threads().min(chunks.saturating_sub(1));
        parallel::run(
            chunks,
            helpers,
            &|chunk| {
                let start = chunk * grain;
                body(start..count.min(start.saturating_add(grain)));
            },
            &|task| self.spawn(task).is_ok(),
        );
    }

    /// Calls `body(start, chunk)` for chunks of at most `grain` elements, in parallel. `start` is the
    /// index of the chunk's first element.
    ///
    /// # Panics
    /// If `body` panics. The panic is rethrown after the chunks in progress have ended.
    pub fn for_each_chunk<T: Send>(
        &self,
        elements: &mut [T],
        grain: usize,
        body: impl Fn(usize, &mut [T]) + Sync,
    ) {
        /// The start of a slice whose disjoint parts different threads use.
        struct Shared<T>(*mut T);
        // SAFETY: each thread accesses a different part of the slice, and T is Send.
        unsafe impl<T: Send> Sync for Shared<T> {}
        impl<T> Shared<T> {
            fn get(&self) -> *mut T {
                self.0
            }
        }
        let len = elements.len();
        let start = Shared(elements.as_mut_ptr());
        self.for_each_range(len, grain, |range| {
            // SAFETY: the start of each range is within the slice.
            let first = unsafe { start.get().add(range.start) };
            // SAFETY: ranges are disjoint, so no other thread accesses this chunk. The borrow of
            // `elements` outlives the loop.
            let chunk = unsafe { std::slice::from_raw_parts_mut(first, range.len()) };
            body(range.start, chunk);
        });
    }
}

/// Runs a boxed task. The host calls this function on its pool.
unsafe extern "C" fn run_boxed(data: *mut std::ffi::c_void) {
    // SAFETY: the pointer comes from `spawn`, and the host calls a task once.
    let task = unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) };
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(task)) {
        let text = crate::error::panics::describe("a task on the thread pool", panic);
        crate::error::panics::warn(format_args!("{text}"));
    }
}

impl<'f> Context<'f> for ThreadPool<'f> {
    const NAME: &'static str = "thread_pool";
    const SINCE: Revision = Feature::ThreadPool.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        let host = frame.host();
        if !host.has(xla_ffi_sys::Slot::ThreadPoolSchedule) {
            return Err::<Self, Error>(host.missing_feature(Feature::ThreadPool));
        }
        Ok(Self {
            host,
            ctx: frame.ctx(),
            _call: PhantomData,
        })
    }
}

context!(ThreadPool<'f>);
