//! How a parameter of a handler is decoded from the call.

pub(crate) mod derived;
pub(crate) mod guess;
pub(crate) mod one_of;
pub(crate) mod optional;
pub(crate) mod region;
pub(crate) mod remaining;

use crate::bind::guess::Guess;
use crate::bind::region::Region;
use crate::call::doubt::Doubt;
use crate::call::frame::Frame;
use crate::declare::at::At;
use crate::declare::param::Param;
use crate::entry::problems::Problems;

/// A type that can be a parameter of a handler.
///
/// What a parameter takes from the call is said by this trait alone. To make a type of your own an
/// attribute, implement [`Attribute`](crate::Attribute) instead; for one that is made from another
/// parameter, derive it ([`macro@Bind`](macro@crate::Bind)). Both are safe.
///
/// `bind` is the fast way and says only whether it worked; where it did not, `explain` goes over
/// the same ground again and says why.
///
/// ```
/// use xla_ffi::{At, Bind, Frame, Param, Problems, Region, prelude::*};
///
/// /// A vector of an even number of elements.
/// struct Pairs<'f>(Buffer<'f, f32, 1>);
///
/// // SAFETY: it takes the argument that its buffer takes, and covers it.
/// unsafe impl<'f> Bind<'f> for Pairs<'f> {
///     const PARAM: Param = <Buffer<'f, f32, 1> as Bind>::PARAM;
///
///     fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
///         let buffer = <Buffer<'f, f32, 1> as Bind>::bind(frame, at)?;
///         buffer.len().is_multiple_of(2).then_some(Self(buffer))
///     }
///
///     fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
///         let before = problems.len();
///         <Buffer<'f, f32, 1> as Bind>::explain(frame, at, problems);
///         if problems.len() == before && Self::bind(frame, at).is_none() {
///             problems.push(format!("argument `{}`: expected pairs", at.param.name));
///         }
///     }
///
///     fn region(&self) -> Region {
///         self.0.region()
///     }
///
///     // Only for types that cannot tell `region` from what they hold.
///     fn region_at(&self, _: &Frame<'f>, _: &At) -> Region {
///         self.region()
///     }
/// }
///
/// #[xla_ffi::handler]
/// fn sums(x: Pairs, mut y: Out<f32, 1>) -> Result<()> {
///     y.write_iter(x.0.chunks(2).map(|pair| pair[0] + pair[1]))?;
///     Ok(())
/// }
///
/// # use xla_ffi::internal::{self, DType, Shape, Tensor};
/// let on = |x: &[f32]| {
///     let x = Tensor::from_slice([x.len() as i64], x)?;
///     internal::call::<sums>("{}")?.arg(x).ret(Shape::new(DType::F32, [1])?).run()
/// };
/// assert_eq!(on(&[1.0, 2.0])?.rets[0].to_vec(), Some(vec![3.0_f32]));
/// let error = on(&[1.0]).unwrap_err();
/// assert_eq!(error.message(), "sums (execute): argument `x`: expected pairs");
/// # Ok::<(), internal::Error>(())
/// ```
///
/// # Safety
/// A handler's parameters are checked against each other by what this trait says of them. So a value
/// reaches the memory of those operands alone that `PARAM` takes at the place `at`, [`Bind::region`]
/// covers what it reaches, `bind` gives each operand to one value, and neither `bind` nor `explain`
/// keeps the frame, reads operands' elements or writes them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a handler",
    label = "not an operand, an attribute or a part of the context",
    note = "operands are `Buffer<T>` and `AnyBuffer` (arguments), `Out<T>` and `AnyOut` (results), \
            `InOut<T>`; attributes are numbers, `bool`, `&str`, slices of numbers, `Dictionary` and \
            types that implement `Attribute`; `UserData` wants `#[derive(UserType)]`, state \
            `#[derive(State)]`; see the documentation of the crate for all"
)]
pub unsafe trait Bind<'f>: Sized {
    /// What the parameter takes.
    const PARAM: Param;

    /// Decodes; `None` when something is wrong, which [`Bind::explain`] then tells.
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self>;

    /// The same within an `Option`, for parts of the context: `Some(None)` where there is no such part,
    /// `None` where something is wrong that must not pass for that.
    #[doc(hidden)]
    #[inline]
    fn bind_if_there(frame: &Frame<'f>, at: &At) -> Option<Option<Self>> {
        Some(Self::bind(frame, at))
    }

    /// What [`Bind::bind`] gives, with some of its checks left to `doubt`, in which all parameters of a call put
    /// theirs; where it resolves, nothing is left to check.
    #[doc(hidden)]
    #[inline(always)]
    fn guess(frame: &Frame<'f>, at: &At, _doubt: &mut Doubt) -> Option<Guess<Self>> {
        Self::bind(frame, at).map(Guess::new)
    }

    /// The value of a call about which there is doubt: this parameter's or another's. A parameter that leaves checks
    /// to it is bound again.
    #[doc(hidden)]
    #[inline(always)]
    fn settle(guess: Guess<Self>, _frame: &Frame<'f>, _at: &At) -> Option<Self> {
        Some(guess.known())
    }

    /// Tells what is wrong, if anything: it is asked for every parameter of a call that was refused,
    /// those that bound included.
    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>);

    /// The host memory that the value may read or write, for the check that results overlap
    /// nothing.
    #[inline(always)]
    fn region(&self) -> Region {
        Region::EMPTY
    }

    /// The same, for values that have forgotten what they were made from: asked instead of
    /// [`Bind::region`], with the frame and the place that `bind` was given.
    #[inline(always)]
    fn region_at(&self, _frame: &Frame<'f>, _at: &At) -> Region {
        self.region()
    }

    /// The same of a value about which there is doubt. Where there is, it says nothing.
    #[doc(hidden)]
    #[inline(always)]
    fn guessed_region(guess: &Guess<Self>, frame: &Frame<'f>, at: &At) -> Region {
        guess.unsure().region_at(frame, at)
    }
}
