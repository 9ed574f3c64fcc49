//! Where a parameter finds what it takes.

use crate::declare::handler_info::HandlerInfo;
use crate::param::{Kind, Param};

/// Where a parameter finds what it takes. The macros make it, and implementations of [`Bind`] are
/// given it.
///
/// [`Bind`]: crate::Bind
///
/// ```
/// use xla_ffi::{At, Bind, Frame, Param, Problems, prelude::*};
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
/// # use xla_ffi::internal::{self, DType, Shape, Tensor};
/// let call = internal::call::<second>("{}")?
///     .arg(Tensor::from_slice([1], &[1])?)
///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
///     .ret(Shape::new(DType::S64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![3_i64]));
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The parameter.
    pub param: Param,
    /// Number of arguments before it.
    pub arg: usize,
    /// Number of results before it.
    pub ret: usize,
    /// Probable position of its (first) attribute.
    pub attr: usize,
}

impl At {
    /// For the macros: the place of parameter `index` of a stage.
    #[doc(hidden)]
    #[must_use]
    pub const fn parameter(info: &HandlerInfo, params: &'static [Param], index: usize) -> Self {
        let (mut arg, mut ret, mut i) = (0, 0, 0);
        while i < index {
            if params[i].takes_arg() {
                arg += 1;
            }
            if params[i].takes_ret() {
                ret += 1;
            }
            i += 1;
        }
        let param = params[index];
        let attr = match param.kind {
            Kind::Attrs => {
                // Structs decode their members in sorted order, from the first on.
                let mut first = usize::MAX;
                let mut m = 0;
                while m < param.members.len() {
                    let position = info.attr_position(param.members[m].name);
                    if position < first {
                        first = position;
                    }
                    m += 1;
                }
                first
            }
            _ => info.attr_position(param.name),
        };
        Self {
            param,
            arg,
            ret,
            attr,
        }
    }
}
