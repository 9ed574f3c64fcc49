//! The trait that decodes a parameter from the call, and the position of a parameter in the call.

use crate::error::problems::Problems;
use crate::frame::Frame;
use crate::param::{Kind, Param};

/// A type that can be a parameter of a handler.
///
/// To make your own type an attribute, implement [`Attribute`](crate::Attribute). To create a type from another
/// parameter, derive [`macro@Bind`](macro@crate::Bind). Both ways are safe; implementing `Bind` by hand is `unsafe`.
///
/// `bind` decodes the parameter and makes all its checks. If a check fails, the call is rejected, and `explain` is
/// called for every parameter to report the problems.
///
/// ```
/// use xla_ffi::{Bind, prelude::*, bind::{At, Frame, Param, Problems}};
///
/// /// A vector of an even number of elements.
/// struct Pairs<'f>(Buffer<'f, f32, 1>);
///
/// // SAFETY: it takes the argument that its buffer takes, and only reads it.
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
/// }
///
/// #[xla_ffi::handler]
/// fn sums(x: Pairs, mut y: Out<f32, 1>) -> Result<()> {
///     y.write_iter(x.0.chunks(2).map(|pair| pair[0] + pair[1]))
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let on = |x: &[f32]| {
///     let x = Tensor::from_slice([x.len() as i64], x)?;
///     embed::call::<sums>("{}")?.arg(x).ret(Shape::new(DType::F32, [1])?).run()
/// };
/// assert_eq!(on(&[1.0, 2.0])?.rets[0].to_vec(), Some(vec![3.0_f32]));
/// let error = on(&[1.0]).unwrap_err();
/// assert_eq!(error.message(), "sums (execute): argument `x`: expected pairs");
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// # Safety
/// Before a handler runs, its operands are checked against each other as `PARAM` declares: no result may have the
/// same address as another operand. Implementations must therefore ensure the following:
/// - A value accesses only the operands that `PARAM` declares at the place `at`, and writes only to results.
/// - `bind` creates only one value per operand.
/// - `bind` and `explain` neither keep the frame nor read or write operands' elements.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a handler",
    label = "not an argument, a result, an attribute or a part of the context",
    note = "an argument is `Buffer<T>`, a result `Out<T>`, where `T` is a number or `xla_ffi::Pred`; an attribute is a \
            number, `bool`, `&str`, `&[T]` or a type with `#[derive(xla_ffi::Attribute)]`",
    note = "the type in `State<T>` and in `UserData<T>` needs `#[derive(xla_ffi::HostType)]`"
)]
pub unsafe trait Bind<'f>: Sized {
    /// The declaration of the parameter.
    const PARAM: Param;

    /// Decodes the parameter and makes all its checks. Returns `None` if a check fails; [`Bind::explain`] then
    /// reports the problem.
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self>;

    /// Reports the problems of the parameter, if any. Called for every parameter of a rejected call, including those
    /// that `bind` decoded.
    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>);

    /// Decodes an optional parameter. Returns `Some(None)` for an absent context part, and `None` if a check fails.
    #[doc(hidden)]
    #[inline(always)]
    fn find(frame: &Frame<'f>, at: &At) -> Option<Option<Self>> {
        let value = Self::bind(frame, at);
        (value.is_some() || matches!(at.param.kind, Kind::Context)).then_some(value)
    }
}

/// The position of a parameter in the call. The macros create the position and pass it to implementations of
/// [`Bind`].
///
/// [`Bind`]: crate::Bind
///
/// ```
/// use xla_ffi::{Bind, prelude::*, bind::{At, Frame, Param, Problems}};
///
/// /// An argument, and which one it is.
/// struct Numbered<'f>(usize, Buffer<'f, f32>);
///
/// // SAFETY: as its buffer.
/// unsafe impl<'f> Bind<'f> for Numbered<'f> {
///     const PARAM: Param = <Buffer<'f, f32> as Bind>::PARAM;
///
///     fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
///         Some(Self(at.arg, <Buffer<'f, f32> as Bind>::bind(frame, at)?))
///     }
///
///     fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
///         <Buffer<'f, f32> as Bind>::explain(frame, at, problems);
///     }
/// }
///
/// #[xla_ffi::handler]
/// fn second(_a: Buffer<i32>, b: Numbered, mut y: Out<i64, 0>) -> Result<()> {
///     y.fill(b.0 as i64 + b.1.len() as i64);
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<second>("{}")?
///     .arg(Tensor::from_slice([1], &[1])?)
///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
///     .ret(Shape::new(DType::S64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![3_i64]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The declaration of the parameter.
    pub param: Param,
    /// The number of arguments before the parameter.
    pub arg: usize,
    /// The number of results before the parameter.
    pub ret: usize,
    /// The probable index of the parameter's first attribute.
    pub attr: usize,
}
