//! The parameters that an asynchronous handler may keep.

use std::marker::PhantomData;

use crate::attribute::Attribute;
use crate::operand::buffer::Buffer;
use crate::operand::device::{AnyDeviceBuffer, AnyDeviceOut, DeviceBuffer, DeviceOut};
use crate::operand::inout::InOut;
use crate::operand::out::Out;
use crate::operand::packed::{Packed, PackedOut};
use crate::operand::token::{Token, TokenOut};
use crate::operand::untyped::{AnyBuffer, AnyOut};

/// A parameter that an asynchronous handler may keep after the call has returned.
///
/// The parameter accesses only operand data, copies, and objects that live until the call completes. All parameters
/// of an `async fn` handler must implement this trait. Types that derive [`Bind`](macro@crate::Bind) implement the
/// trait if their source type does.
///
/// ```
/// use xla_ffi::{Bind, prelude::*};
///
/// #[derive(Bind)]
/// #[bind(from = Buffer<'f, f32, 1>)]
/// struct Weights<'f>(Buffer<'f, f32, 1>);
///
/// impl<'f> From<Buffer<'f, f32, 1>> for Weights<'f> {
///     fn from(buffer: Buffer<'f, f32, 1>) -> Self {
///         Self(buffer)
///     }
/// }
///
/// #[xla_ffi::handler]
/// async fn total(weights: Weights, mut y: Out<f32, 0>) -> Result<()> {
///     std::future::ready(()).await;
///     y.fill(weights.0.iter().sum());
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<total>("{}")?
///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
///     .ret(Shape::new(DType::F32, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![3.0_f32]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// # Safety
/// No method of the type uses the call's context.
#[diagnostic::on_unimplemented(
    message = "`{Self}` ends with the call, but an async handler runs on after it",
    label = "cannot be a parameter of an async handler",
    note = "an async handler takes operands, attributes, state, `UserData`, `RunId`, `DeviceOrdinal` and `Cancellation`; \
            take anything else in a handler that is not async"
)]
pub unsafe trait OutlivesCall {}

/// Implements `OutlivesCall` for types that hold operand data, copies, or an object that the host
/// keeps.
macro_rules! impl_outlives_call {
    ($({$($generics:tt)*} $ty:ty;)*) => {
        $(
            // SAFETY: the type holds operand data, copies, or an object that the host keeps.
            unsafe impl<$($generics)*> crate::future::outlives::OutlivesCall for $ty {}
        )*
    };
}

pub(crate) use impl_outlives_call;

impl_outlives_call! {
    {T, const RANK: usize} Buffer<'_, T, RANK>;
    {T, const RANK: usize} Out<'_, T, RANK>;
    {T, const RANK: usize} InOut<'_, T, RANK>;
    {P, const RANK: usize} Packed<'_, P, RANK>;
    {P, const RANK: usize} PackedOut<'_, P, RANK>;
    {} AnyBuffer<'_>;
    {} AnyOut<'_>;
    {T, const RANK: usize} DeviceBuffer<'_, T, RANK>;
    {T, const RANK: usize} DeviceOut<'_, T, RANK>;
    {} AnyDeviceBuffer<'_>;
    {} AnyDeviceOut<'_>;
    {} Token<'_>;
    {} TokenOut<'_>;
}

/// Represents the source type of a derived type. The lifetime defers the trait bound until it is needed. Used by
/// `#[derive(Bind)]`.
#[doc(hidden)]
#[derive(Debug)]
pub struct MadeFrom<'f, T>(PhantomData<(&'f (), T)>);

// SAFETY: a derived type has the properties of its source type.
unsafe impl<T: OutlivesCall> OutlivesCall for MadeFrom<'_, T> {}

// SAFETY: attributes are copied with the call frame.
#[diagnostic::do_not_recommend]
unsafe impl<'f, A: Attribute<'f>> OutlivesCall for A {}

/// Rejects at compile time a parameter that an asynchronous handler cannot keep. Used by the
/// macros.
#[doc(hidden)]
#[inline(always)]
pub fn outlives_call<T: OutlivesCall>(_: &T) {}
