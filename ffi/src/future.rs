//! Calls that complete after the handler has returned.
//!
//! Soundness: a promise owns operands whose memory the host reuses once the call is complete. As soon as a promise
//! exists, the call is therefore pending, whatever the handler returns ([`Pending`],
//! [`Return::settle`](crate::frame::pending::Return::settle)). An error that the handler returns is also reported
//! only when the promise is completed or dropped.

#[cfg_attr(
    loom,
    expect(dead_code, unused_imports, reason = "models have loom's threads")
)]
pub(crate) mod executor;
pub(crate) mod kept;
pub(crate) mod outlives;
pub(crate) mod split;
pub(crate) mod task;

use crate::error::Result;
use crate::error::problems::Problems;
use crate::frame::Frame;
use crate::frame::pending::{Completion, Pending, pair};
use crate::param::Param;
use crate::param::bind::At;
use crate::param::bind::Bind;
use xla_ffi_sys::Revision;

/// An operand that can outlive the handler.
///
/// The operand's data stays with the host until the call is completed; everything else is copied.
/// [`Buffer`](crate::Buffer), [`Out`](crate::Out), [`InOut`](crate::InOut), [`AnyBuffer`](crate::AnyBuffer),
/// [`AnyOut`](crate::AnyOut) and tuples of up to eight operands implement this trait.
///
/// ```
/// use xla_ffi::{Later, prelude::*, later::{Detach, Kept}, bind::Frame};
///
/// /// A matrix and the vector that it is applied to.
/// struct Product<'f> {
///     matrix: Buffer<'f, f32, 2>,
///     vector: Buffer<'f, f32, 1>,
/// }
///
/// struct KeptProduct(<Buffer<'static, f32, 2> as Detach>::Kept, <Buffer<'static, f32, 1> as Detach>::Kept);
///
/// // SAFETY: both buffers keep the promise.
/// unsafe impl Detach for Product<'_> {
///     type Kept = KeptProduct;
///
///     unsafe fn detach(self, call: &Frame<'_>) -> KeptProduct {
///         // SAFETY: the caller's promise goes for both.
///         let matrix = unsafe { self.matrix.detach(call) };
///         // SAFETY: as above.
///         KeptProduct(matrix, unsafe { self.vector.detach(call) })
///     }
/// }
///
/// impl Kept for KeptProduct {
///     type At<'a> = Product<'a>;
///
///     fn at(&mut self) -> Product<'_> {
///         Product { matrix: self.0.at(), vector: self.1.at() }
///     }
/// }
///
/// #[xla_ffi::handler(shape = "n m, m -> n")]
/// fn apply(matrix: Buffer<f32, 2>, vector: Buffer<f32, 1>, y: Out<f32, 1>, later: Later) -> Result<()> {
///     let promise = later.promise((Product { matrix, vector }, y));
///     std::thread::spawn(move || {
///         promise.complete_with(|(product, mut y)| {
///             let dot = |row: &[f32]| row.iter().zip(&*product.vector).map(|(a, b)| a * b).sum();
///             y.write_iter(product.matrix.rows().map(dot))
///         });
///     });
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<apply>("{}")?
///     .arg(Tensor::from_slice([1, 2], &[1.0_f32, 2.0])?)
///     .arg(Tensor::from_slice([2], &[3.0_f32, 4.0])?)
///     .ret(Shape::new(DType::F32, [1])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![11.0_f32]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// # Safety
/// The value that `detach` returns accesses no memory of the host other than the data of the call's operands.
pub unsafe trait Detach {
    /// The type of the operands after they are detached.
    type Kept: Kept;

    /// Detaches the operands: copies all their data except the elements.
    ///
    /// # Panics
    /// If an operand belongs to a different call. [`Promise::with`] lends operands of the promise's call, which are
    /// not kept after that call completes.
    ///
    /// # Safety
    /// `call` is the frame of the current call, and the returned value is dropped before that call is completed.
    unsafe fn detach(self, call: &Frame<'_>) -> Self::Kept;
}

/// Operands that outlive the handler. Created by [`Detach`], whose example implements both traits for a custom type.
///
/// ```
/// use xla_ffi::later::{Kept, KeptBuffer, KeptOut};
///
/// /// Works on operands that were kept, wherever they are.
/// fn copy(operands: &mut (KeptBuffer<f32, 1>, KeptOut<f32, 1>)) -> xla_ffi::Result<()> {
///     let (x, mut y) = operands.at();
///     assert_eq!(x.dims(), y.dims());
///     y.copy_from(&x)
/// }
/// ```
pub trait Kept: Send + 'static {
    /// The type of the operands while they are borrowed.
    type At<'a>;

    /// Returns the operands, borrowed from this value.
    fn at(&mut self) -> Self::At<'_>;
}

/// Permission to return before the call is complete. Only the execute stage can have this parameter.
///
/// ```
/// use xla_ffi::{Later, prelude::*};
///
/// #[xla_ffi::handler]
/// fn add_one(x: Buffer<f32>, y: Out<f32>, later: Later) -> Result<()> {
///     let promise = later.promise((x, y));
///     std::thread::spawn(move || {
///         promise.complete_with(|(x, mut y)| {
///             y.write_iter(x.iter().map(|x| x + 1.0))
///         });
///     });
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<add_one>("{}")?
///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
///     .ret(Shape::new(DType::F32, [2])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2.0_f32, 3.0]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// ```
/// use xla_ffi::{Later, prelude::*};
///
/// #[xla_ffi::handler]
/// fn unlucky(later: Later) {
///     let promise = later.promise(());
///     std::thread::spawn(move || promise.complete(Err(Error::unavailable("not today"))));
/// }
///
/// # use xla_ffi::embed;
/// let error = embed::call::<unlucky>("{}")?.run().unwrap_err();
/// assert_eq!(error.message(), "unlucky (execute): not today");
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// Hosts have futures since r2 (jaxlib 0.4.34). On older hosts, the call waits for the promise after the handler
/// returns, so handlers need no code for this case.
pub struct Later<'f> {
    frame: Frame<'f>,
    pending: &'f Pending,
}

impl std::fmt::Debug for Later<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Later").finish_non_exhaustive()
    }
}

impl Later<'_> {
    /// Returns true if the handler can return before the call completes, that is, if the host has futures.
    ///
    /// ```
    /// use xla_ffi::{Later, Revision, prelude::*};
    ///
    /// #[xla_ffi::handler]
    /// fn is_async(later: Later, mut y: Out<i32, 0>) -> Result<()> {
    ///     // Without a promise the call is complete when the handler returns.
    ///     y.fill(i32::from(later.is_async()));
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Runtime, Shape};
    /// for (revision, expected) in [(Revision::R1, 0), (Revision::R2, 1)] {
    ///     let handler = Runtime::new(revision).handler("h", embed::bundle::<is_async>())?;
    ///     let call = handler.instantiate(&embed::Attributes::new())?.call();
    ///     let outcome = call.ret(Shape::new(DType::S32, [])?).run()?;
    ///     assert_eq!(outcome.rets[0].to_vec(), Some(vec![expected]));
    /// }
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    #[must_use]
    pub fn is_async(&self) -> bool {
        self.frame.host().has_futures()
    }

    /// Returns a promise that owns `operands`. Once the promise exists, the call is pending, whatever the handler
    /// returns.
    ///
    /// If the handler returns an error, the host receives it when the promise is completed or dropped. The error then
    /// replaces the promise's outcome. If the call is still pending when the handler returns, the host's future is
    /// created.
    ///
    /// # Panics
    /// If an operand belongs to a different call and was lent by a promise of that call.
    #[inline]
    pub fn promise<T: Detach>(self, operands: T) -> Promise<T::Kept> {
        // SAFETY: the call is pending as soon as the promise exists, and the promise drops the operands before it
        // completes the call.
        let operands = unsafe { operands.detach(&self.frame) };
        let (completion, call) = pair();
        self.pending.set(call);
        Promise {
            operands,
            completion,
        }
    }
}

/// The name of the context part `Later`, by which the entry point recognizes the parameter.
pub(crate) const CONTEXT: &str = "future";

// SAFETY: the value does not access operands.
unsafe impl<'f> Bind<'f> for Later<'f> {
    const PARAM: Param = Param::context(CONTEXT, Revision::R0);

    #[inline(always)]
    fn bind(frame: &Frame<'f>, _at: &At) -> Option<Self> {
        Some(Self {
            frame: *frame,
            pending: frame.pending()?,
        })
    }

    fn explain(_: &Frame<'f>, _: &At, _: &mut Problems<'_>) {}
}

/// The obligation to complete a call, with the operands that may be accessed until then.
///
/// Completing a promise consumes the promise, so the operands cannot be accessed afterwards. Dropping a promise
/// completes the call with an error. Created by [`Later::promise`]. Available since r0 (jaxlib 0.4.31), asynchronous
/// since r2 (jaxlib 0.4.34).
///
/// ```
/// use std::thread;
/// use xla_ffi::{Later, prelude::*};
///
/// #[xla_ffi::handler(shape = "n -> n")]
/// fn checked_roots(x: Buffer<f64, 1>, y: Out<f64, 1>, later: Later) -> Result<()> {
///     let mut promise = later.promise((x, y));
///     // The operands can be worked on before the end …
///     let negative = promise.with(|(x, _)| x.iter().any(|x| *x < 0.0));
///     thread::spawn(move || {
///         if negative {
///             promise.complete(Err(Error::out_of_range("a root of a negative number")));
///             return;
///         }
///         // … and at the end.
///         promise.complete_with(|(x, mut y)| {
///             y.write_iter(x.iter().map(|x| x.sqrt()))
///         });
///     });
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let on = |x: &[f64]| {
///     let call = embed::call::<checked_roots>("{}")?.arg(Tensor::from_slice([2], x)?);
///     call.ret(Shape::new(DType::F64, [2])?).run()
/// };
/// assert_eq!(on(&[4.0, 9.0])?.rets[0].to_vec(), Some(vec![2.0, 3.0]));
/// assert_eq!(on(&[4.0, -9.0]).unwrap_err().message(), "checked_roots (execute): a root of a negative number");
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub struct Promise<K: Kept> {
    // Declared before the completion, so that the operands are dropped before the completion.
    pub(crate) operands: K,
    pub(crate) completion: Completion,
}

impl<K: Kept> std::fmt::Debug for Promise<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promise").finish_non_exhaustive()
    }
}

impl<K: Kept> Promise<K> {
    /// Passes the operands to `work` without completing the call.
    pub fn with<R>(&mut self, work: impl for<'a> FnOnce(K::At<'a>) -> R) -> R {
        work(self.operands.at())
    }

    /// Completes the call with an outcome.
    #[inline(always)]
    pub fn complete(self, outcome: Result<()>) {
        // Drop the operands' copied data first. Their elements belong to the host.
        drop(self.operands);
        self.completion.complete(outcome);
    }

    /// Passes the operands to `work` and completes the call with the outcome of `work`. A panic becomes an error.
    pub fn complete_with(mut self, work: impl for<'a> FnOnce(K::At<'a>) -> Result<()>) {
        let outcome = crate::error::panics::caught(|| work(self.operands.at()));
        self.complete(outcome);
    }
}
