//! Calls that complete in parts: several threads each own a share of the operands.
//!
//! Soundness: the host keeps the operands until the call is completed. This happens when the last part is completed
//! or dropped, which consumes the part and its operands. Each part may therefore access operands until it is dropped.
//! All parts share the arguments, which are only read, and each part owns separate rows of a result.

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};

use crate::error::{Error, Result};
use crate::frame::pending::sync::atomic::{AtomicUsize, Ordering};
use crate::frame::pending::sync::{Mutex, MutexGuard};
use crate::future::{Kept, Promise};

/// Detached operands that the parts of a call can share.
///
/// [`Promise::count_down`] and [`Promise::gather`] use this trait. The detached forms of this crate's operands
/// implement the trait; see [`Detach`](crate::later::Detach).
///
/// ```
/// use xla_ffi::later::{Divide, Kept, KeptBuffer, KeptOut};
///
/// /// The number of rows that a call can be divided by.
/// fn rows<K: Divide>(operands: &K) -> Option<usize> {
///     operands.rows().ok().flatten()
/// }
///
/// // Arguments are shared whole, and there are no rows to divide where there are no operands.
/// assert_eq!(rows(&()), None);
/// // SAFETY: nothing is reached.
/// assert_eq!(unsafe { ().piece(0..1) }, Ok(()));
/// fn is_shared<K: Divide<Shared = (KeptBuffer<f32, 1>, ())>>() {}
/// is_shared::<(KeptBuffer<f32, 1>, KeptOut<f32, 1>)>();
/// // SAFETY: nothing is reached.
/// assert_eq!(unsafe { ().shared() }, ());
/// ```
///
/// # Safety
/// Pieces with disjoint rows access no common byte of a result. The value of `shared` accesses no results.
pub unsafe trait Divide: Kept + Sized {
    /// The type of the operands without results: each result is replaced by `()`.
    type Shared: Kept;

    /// Returns the size of the results' first dimension, or `None` if there are no results.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if a result is a scalar, or if the
    /// results differ in their first dimension.
    fn rows(&self) -> Result<Option<usize>>;

    /// Returns all arguments and the given rows of the results.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the rows of packed elements do not
    /// start at a byte boundary.
    ///
    /// # Safety
    /// The rows are within [`Divide::rows`]. The returned value is dropped before the call is completed. Until
    /// then, neither `self` nor another piece with one of these rows is used.
    unsafe fn piece(&self, rows: Range<usize>) -> Result<Self>;

    /// Returns the arguments, which all parts share.
    ///
    /// # Safety
    /// The returned value is dropped before the call is completed and before `self` is used again.
    unsafe fn shared(&self) -> Self::Shared;
}

/// The action that runs after all parts are complete. The argument is the first error of a part, if
/// any.
type End = Box<dyn FnOnce(Result<()>) + Send>;

struct Latch {
    left: AtomicUsize,
    error: Mutex<Option<Error>>,
    end: Mutex<Option<End>>,
}

/// The obligation of a part to count down the latch once.
struct CountDown(Option<Arc<Latch>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CountDown {
    fn all(parts: usize, end: End) -> impl Iterator<Item = Self> {
        let latch = Arc::new(Latch {
            left: AtomicUsize::new(parts),
            error: Mutex::new(None),
            end: Mutex::new(Some(end)),
        });
        (0..parts).map(move |_| Self(Some(Arc::clone(&latch))))
    }

    fn fire(&mut self, outcome: Result<()>) {
        let Some(latch) = self.0.take() else {
            return;
        };
        if let Err(error) = outcome {
            lock(&latch.error).get_or_insert(error);
        }
        if latch.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let end = lock(&latch.end).take();
            let error = lock(&latch.error).take();
            if let Some(end) = end {
                // The action drops users' values, including values of other parts, and may run during unwinding. A
                // panic must not prevent the call from completing.
                let ended = std::panic::catch_unwind(AssertUnwindSafe(|| {
                    end(error.map_or(Ok(()), Err));
                }));
                if let Err(panic) = ended {
                    let text = crate::error::panics::describe("the end of a call in parts", panic);
                    crate::error::panics::warn(format_args!("{text}"));
                }
            }
        }
    }
}

impl Drop for CountDown {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.fire(Err(Error::internal(
                "the handler dropped a part of its promise without completing it",
            )));
        }
    }
}

/// The shares of a gathered call, by part number.
type Shares<S> = Arc<Mutex<Vec<Option<S>>>>;

/// One part of a call: the operands that the part may access, and the obligation to complete the
/// part.
///
/// See [`Promise::count_down`] and [`Promise::gather`]. Completing a part consumes the part, so the operands cannot
/// be accessed afterwards. Dropping a part fails the call.
///
/// ```
/// use xla_ffi::{Later, prelude::*, later::{KeptOut, Part}};
///
/// fn fill(mut part: Part<KeptOut<u64, 1>>) {
///     let rows = part.rows();
///     assert_eq!(part.with(|y| y.len()), rows.len());
///     if part.index() == 0 && rows.is_empty() {
///         return part.complete(Err(Error::invalid_argument("nothing to fill")));
///     }
///     part.complete_with(|mut y| {
///         y.write_iter(rows.map(|row| row as u64))
///     });
/// }
///
/// #[xla_ffi::handler]
/// fn iota(y: Out<u64, 1>, later: Later) -> Result<()> {
///     let promise = later.promise(y);
///     for part in promise.count_down(3)? {
///         std::thread::spawn(move || fill(part));
///     }
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape};
/// let call = embed::call::<iota>("{}")?.ret(Shape::new(DType::U64, [5])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![0_u64, 1, 2, 3, 4]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub struct Part<K: Kept = (), S: Send + 'static = ()> {
    // Declared before the count-down, so that the operands are dropped before the count-down.
    operands: K,
    index: usize,
    rows: Range<usize>,
    shares: Option<Shares<S>>,
    count_down: CountDown,
}

impl<K: Kept, S: Send + 'static> std::fmt::Debug for Part<K, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part")
            .field("index", &self.index)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl<K: Kept, S: Send + 'static> Part<K, S> {
    /// Returns the index of the part, starting at 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the part's rows of the results, as a range of their first dimension. If the results are not divided,
    /// the range contains only the part's index.
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Passes the operands to `work` without completing the part.
    pub fn with<R>(&mut self, work: impl for<'a> FnOnce(K::At<'a>) -> R) -> R {
        work(self.operands.at())
    }

    /// Completes this part with an outcome.
    pub fn complete(self, outcome: Result<S>) {
        let Self {
            operands,
            index,
            shares,
            mut count_down,
            ..
        } = self;
        drop(operands);
        count_down.fire(outcome.map(|share| {
            if let Some(shares) = &shares {
                lock(shares)[index] = Some(share);
            }
        }));
    }

    /// Passes the operands to `work` and completes this part with the outcome of `work`. A panic becomes an error.
    pub fn complete_with(mut self, work: impl for<'a> FnOnce(K::At<'a>) -> Result<S>) {
        let outcome = crate::error::panics::caught(|| work(self.operands.at()));
        self.complete(outcome);
    }
}

fn no_parts() -> Error {
    Error::invalid_argument("a call in no parts would never complete")
}

impl<K: Divide> Promise<K> {
    /// Splits a promise into `parts` parts that own separate rows of the results.
    ///
    /// The call completes when all parts are complete, with the first error if there is one. Each part has all
    /// arguments and its own rows of every result. The first dimension is divided into ranges whose lengths
    /// differ by at most one.
    ///
    /// ```
    /// use xla_ffi::{Later, prelude::*};
    ///
    /// /// Sums along rows.
    /// #[xla_ffi::handler(shape = "n m -> n")]
    /// fn row_sums(x: Buffer<f32, 2>, y: Out<f32, 1>, later: Later) -> Result<()> {
    ///     let promise = later.promise((x, y));
    ///     for part in promise.count_down(2)? {
    ///         std::thread::spawn(move || {
    ///             let rows = part.rows();
    ///             part.complete_with(|(x, mut y)| {
    ///                 let x = x.rows().skip(rows.start); // all of `x`, some of `y`
    ///                 y.write_iter(x.map(|row| row.iter().sum()))
    ///             });
    ///         });
    ///     }
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let call = embed::call::<row_sums>("{}")?
    ///     .arg(Tensor::from_slice([3, 2], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?)
    ///     .ret(Shape::new(DType::F32, [3])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![3.0_f32, 7.0, 11.0]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) in the following cases. The call
    /// fails with the same error.
    /// - `parts` is 0.
    /// - A result is a scalar; use [`Promise::gather`] instead.
    /// - The results differ in their first dimension.
    /// - Packed elements cannot be divided at a byte boundary.
    pub fn count_down(self, parts: usize) -> Result<Vec<Part<K>>> {
        // The completion is declared first and therefore dropped last. If user code unwinds in this function, all
        // operands are dropped before the call is completed.
        let Self {
            completion,
            operands,
        } = self;
        match Self::pieces(&operands, parts) {
            Ok(pieces) => {
                // From this point on, the pieces own the operands.
                drop(operands);
                let end = Box::new(|outcome| completion.complete(outcome));
                Ok(pieces
                    .into_iter()
                    .zip(CountDown::all(parts, end))
                    .enumerate()
                    .map(|(index, ((rows, operands), count_down))| Part {
                        operands,
                        index,
                        rows,
                        shares: None,
                        count_down,
                    })
                    .collect())
            }
            Err(error) => {
                drop(operands);
                completion.complete(Err(error.clone()));
                Err(error)
            }
        }
    }

    fn pieces(operands: &K, parts: usize) -> Result<Vec<(Range<usize>, K)>> {
        if parts == 0 {
            return Err(no_parts());
        }
        let rows = operands.rows()?.unwrap_or(parts);
        // The first `more` parts have one row more than the other parts.
        let (each, more) = (rows / parts, rows % parts);
        (0..parts)
            .map(|part| {
                let start = part * each + part.min(more);
                let rows = start..start + each + usize::from(part < more);
                // SAFETY: the ranges are disjoint and within the rows. Each piece becomes a part, and the call
                // completes after the last part. If a later piece fails, the caller drops all pieces before it
                // completes the call.
                unsafe { operands.piece(rows.clone()) }.map(|piece| (rows, piece))
            })
            .collect()
    }

    /// Splits a promise into `parts` parts that each contribute a share; `finish` computes the results from
    /// the shares.
    ///
    /// `finish` runs on the thread of the last part, after all parts are complete. It receives the shares in the
    /// order of the parts. If a part fails, the call fails with the part's error instead.
    ///
    /// ```
    /// use xla_ffi::{Later, prelude::*};
    ///
    /// #[xla_ffi::handler(shape = "n -> ()")]
    /// fn total(x: Buffer<f64, 1>, y: Out<f64, 0>, later: Later) -> Result<()> {
    ///     const PARTS: usize = 4;
    ///     let promise = later.promise((x, y));
    ///     let parts = promise.gather(PARTS, |(_, mut y), sums: Vec<f64>| {
    ///         y.fill(sums.iter().sum());
    ///         Ok(())
    ///     })?;
    ///     for part in parts {
    ///         std::thread::spawn(move || {
    ///             let index = part.index();
    ///             // `()` is where the result would be: that is for the end.
    ///             part.complete_with(|(x, ())| {
    ///                 let chunk = x.len().div_ceil(PARTS).max(1);
    ///                 Ok(x.chunks(chunk).nth(index).unwrap_or_default().iter().sum())
    ///             });
    ///         });
    ///     }
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let call = embed::call::<total>("{}")?
    ///     .arg(Tensor::from_slice([5], &[1.0, 2.0, 3.0, 4.0, 5.0])?)
    ///     .ret(Shape::new(DType::F64, [])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![15.0]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if `parts` is 0. The call fails with
    /// the same error.
    pub fn gather<S: Send + 'static>(
        self,
        parts: usize,
        finish: impl for<'a> FnOnce(K::At<'a>, Vec<S>) -> Result<()> + Send + 'static,
    ) -> Result<Vec<Part<K::Shared, S>>> {
        if parts == 0 {
            self.complete(Err(no_parts()));
            return Err(no_parts());
        }
        let shares: Shares<S> = Arc::new(Mutex::new((0..parts).map(|_| None).collect()));
        let shared: Vec<K::Shared> = (0..parts)
            // SAFETY: each value belongs to a part, which drops the value before it counts down. The operands are
            // used and the call is completed only after all parts have counted down.
            .map(|_| unsafe { self.operands.shared() })
            .collect();
        let brought = Arc::clone(&shares);
        let end = Box::new(move |outcome: Result<()>| match outcome {
            Ok(()) => {
                let shares = std::mem::take(&mut *lock(&brought));
                let shares = shares.into_iter().flatten().collect();
                self.complete_with(|operands| finish(operands, shares));
            }
            Err(error) => self.complete(Err(error)),
        });
        Ok(shared
            .into_iter()
            .zip(CountDown::all(parts, end))
            .enumerate()
            .map(|(index, (operands, count_down))| Part {
                operands,
                index,
                rows: index..index + 1,
                shares: Some(Arc::clone(&shares)),
                count_down,
            })
            .collect())
    }
}

/// Tests all orders in which the parts of a call can end.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::frame::loom_host;
    use crate::frame::pending::pair;

    /// How a part ends: it fails, completes, or is dropped.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum End {
        Well,
        Badly,
        Dropped,
    }

    const ENDS: [End; 3] = [End::Well, End::Badly, End::Dropped];

    fn play(part: Part<(), usize>, end: End) {
        let number = part.index();
        match end {
            End::Well => part.complete(Ok(10 + number)),
            End::Badly => part.complete(Err(Error::internal("on purpose"))),
            End::Dropped => drop(part),
        }
    }

    /// Tests that the thread of the last part receives both shares, and that the call ends once.
    #[test]
    fn loom_the_last_part_ends_the_call() {
        for end in ENDS {
            for host in loom_host::both() {
                let mut model = loom::model::Builder::new();
                model.preemption_bound = Some(3);
                model.check(move || {
                    let (completion, back) = pair();
                    let promise = Promise {
                        completion,
                        operands: (),
                    };
                    let parts = promise.gather(2, |(), shares: Vec<usize>| {
                        assert_eq!(shares, [10, 11]);
                        Ok(())
                    });
                    let mut parts = parts.unwrap();
                    let other = parts.pop().unwrap();
                    let thread = loom::thread::spawn(move || play(other, end));
                    play(parts.pop().unwrap(), End::Well);
                    let well = loom_host::went_well(back.settle(host, ("loom", 3), None));
                    assert_eq!(well, end == End::Well);
                    thread.join().unwrap();
                });
            }
        }
    }
}
