//! Tokens: operands that order operations and have no data.

use std::marker::PhantomData;

use crate::error::problems::Problems;
use crate::frame::Frame;
use crate::frame::element::DataTypes;
use crate::param::bind::{At, Bind};
use crate::param::{Kind, Param};
use xla_ffi_sys::XLA_FFI_DataType;

/// A token argument, which has no elements. The call runs after the operation that produced the
/// token. Available since r0 (jaxlib 0.4.31).
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn after(_before: Token, _after: TokenOut) -> Result<()> {
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, Shape, Tensor};
/// let call = embed::call::<after>("{}")?.arg(Tensor::zeros(Shape::token())?).ret(Shape::token());
/// assert!(call.run().is_ok());
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Token<'f>(PhantomData<&'f ()>);

/// A token result, which has no elements to write. Operations that use the token run after the
/// call. Available since r0 (jaxlib 0.4.31).
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use xla_ffi::prelude::*;
///
/// static CALLS: AtomicU32 = AtomicU32::new(0);
///
/// #[xla_ffi::handler]
/// fn log(_x: Buffer<f32>, _logged: TokenOut) -> Result<()> {
///     CALLS.fetch_add(1, Ordering::Relaxed);
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, Shape, Tensor};
/// let call = embed::call::<log>("{}")?
///     .arg(Tensor::from_slice([1], &[1.0_f32])?)
///     .ret(Shape::token());
/// call.run()?;
/// assert_eq!(CALLS.load(Ordering::Relaxed), 1);
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Debug)]
pub struct TokenOut<'f>(PhantomData<&'f ()>);

macro_rules! token {
    ($name:ident $kind:ident $operand:ident $index:ident) => {
        // SAFETY: the value accesses no memory.
        unsafe impl<'f> Bind<'f> for $name<'f> {
            const PARAM: Param = Param::operand(
                Kind::$kind,
                DataTypes::only(XLA_FFI_DataType::TOKEN),
                Some(0),
            );

            #[inline(always)]
            fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
                let raw = frame.$operand(at.$index)?;
                (raw.dtype() == XLA_FFI_DataType::TOKEN && raw.rank() == 0)
                    .then_some(Self(PhantomData))
            }

            fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
                problems.$operand(frame, at, 1);
            }
        }
    };
}

token!(Token Arg arg arg);
token!(TokenOut Ret ret ret);
