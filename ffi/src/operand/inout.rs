//! Operands that are both argument and result, and share memory at the caller's request.

use std::ops::{Deref, DerefMut};

use crate::error::problems::{Problems, put};
use crate::error::wording;
use crate::frame::Frame;
use crate::frame::element::{ANY_RANK, DataTypes, Element, rank};
use crate::frame::raw_buffer::Typed;
use crate::param::bind::{At, Bind};
use crate::param::mismatch::show;
use crate::param::{Kind, Param};

/// An argument and a result that share their memory: the elements are changed in place.
///
/// This parameter uses the next argument *and* the next result. The caller must declare the alias
/// (`input_output_aliases={i: j}` in `jax.ffi.ffi_call`). If the argument and the result have different memory, the
/// call is rejected with an error that explains this. Available since r0 (jaxlib 0.4.31).
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn increment(mut x: InOut<i32>) -> Result<()> {
///     assert_eq!(x.dims().iter().product::<usize>(), x.len());
///     x.iter_mut().for_each(|v| *v += 1);
///     Ok(())
/// }
///
/// /// Each row less its first element.
/// #[xla_ffi::handler]
/// fn from_first(mut x: InOut<i32, 2>) -> Result<()> {
///     let [n, m] = x.shape();
///     assert_eq!(x.as_slice().len(), n * m);
///     for row in x.as_mut_slice().chunks_exact_mut(m.max(1)) {
///         let first = row[0];
///         row.iter_mut().for_each(|v| *v -= first);
///     }
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = || Ok::<_, xla_ffi::Error>(embed::call::<increment>("{}")?.arg(Tensor::from_slice([2], &[1, 2])?));
/// let outcome = call()?.ret_alias(0).run()?; // result 0 lies where argument 0 does
/// assert_eq!(outcome.rets[0].to_vec(), Some(vec![2, 3]));
///
/// let error = call()?.ret(Shape::new(DType::S32, [2])?).run().unwrap_err();
/// assert!(error.message().contains("input_output_aliases={0: 0}"));
///
/// let outcome = embed::call::<from_first>("{}")?
///     .arg(Tensor::from_slice([2, 2], &[1, 2, 3, 5])?)
///     .ret_alias(0)
///     .run()?;
/// assert_eq!(outcome.rets[0].to_vec(), Some(vec![0, 1, 0, 2]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub struct InOut<'f, T, const RANK: usize = ANY_RANK> {
    // Invariant: the elements are initialized and reachable only through this value.
    view: Typed<'f, T>,
}

// SAFETY: the value is a unique slice of numbers.
unsafe impl<T: Send, const RANK: usize> Send for InOut<'_, T, RANK> {}
// SAFETY: the value is a unique slice of numbers.
unsafe impl<T: Sync, const RANK: usize> Sync for InOut<'_, T, RANK> {}

impl<'f, T: Element, const RANK: usize> InOut<'f, T, RANK> {
    /// Returns the number of elements along each dimension.
    #[must_use]
    pub fn dims(&self) -> &'f [usize] {
        self.view.dims
    }

    /// Returns the elements in row-major order.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        self
    }

    /// Returns the elements in row-major order as a mutable slice.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self
    }

    /// Returns the dimensions as an array. Requires a fixed rank.
    #[must_use]
    pub fn shape(&self) -> [usize; RANK] {
        const {
            assert!(
                RANK != ANY_RANK,
                "`shape` needs a fixed rank: `InOut<T, 2>`"
            )
        };
        self.view.shape()
    }
}

impl<T: Element, const RANK: usize> Deref for InOut<'_, T, RANK> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `Typed` guarantees `len` aligned elements. The elements are initialized, because they are also an
        // argument.
        unsafe { std::slice::from_raw_parts(self.view.data, self.view.len) }
    }
}

impl<T: Element, const RANK: usize> DerefMut for InOut<'_, T, RANK> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `Typed` guarantees `len` aligned elements, which are initialized because they are also an argument.
        // Operands have separate memory, except for exact aliases. Any alias other than this in-out operand is
        // rejected before the handler runs, so the view is unique.
        unsafe { std::slice::from_raw_parts_mut(self.view.data, self.view.len) }
    }
}

impl<'f, T: Element, const RANK: usize> InOut<'f, T, RANK> {
    pub(crate) fn into_view(self) -> Typed<'f, T> {
        self.view
    }

    /// Creates an in-out operand from a view of its elements.
    ///
    /// # Safety
    /// `view` describes an operand of this type, and its data is valid for `'f`.
    pub(crate) unsafe fn from_view(view: Typed<'f, T>) -> Self {
        Self { view }
    }
}

impl<T: Element, const RANK: usize> std::fmt::Debug for InOut<'_, T, RANK> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InOut")
            .field("dims", &self.view.dims)
            .field("elements", &&**self)
            .finish()
    }
}

/// Returns true if an argument and a result have the same address and shape.
#[inline(always)]
fn are_one<T>(arg: Typed<'_, T>, ret: Typed<'_, T>) -> bool {
    arg.dims == ret.dims && (arg.data == ret.data || ret.len == 0)
}

// SAFETY: the value accesses only the argument and the result at its place, which are the same array.

unsafe impl<'f, T: Element, const RANK: usize> Bind<'f> for InOut<'f, T, RANK> {
    const PARAM: Param = Param::operand(Kind::InOut, DataTypes::only(T::DTYPE), rank(RANK));

    #[inline]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        let arg = frame.arg(at.arg)?.typed::<T>(rank(RANK))?;
        let view = frame.ret(at.ret)?.typed::<T>(rank(RANK))?;
        are_one(arg, view).then_some(Self { view })
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        let before = problems.len();
        problems.arg(frame, at, align_of::<T>());
        problems.ret(frame, at, align_of::<T>());
        let (Some(arg), Some(ret)) = (frame.arg(at.arg), frame.ret(at.ret)) else {
            return;
        };
        if problems.len() > before {
            return;
        }
        let name = at.param.name;
        if arg.raw_dims() != ret.raw_dims() {
            let text = problems.line();
            put(text, &["in-out operand `", name, "`: the argument is "]);
            show(text, arg);
            text.push_str(", the result ");
            show(text, ret);
            text.push_str(wording::ONE_ARRAY);
        } else if arg.data() != ret.data() && !arg.raw_dims().contains(&0) {
            problems.push(format!(
                "in-out operand `{name}`: {}{{{}: {}}}",
                wording::APART,
                at.arg,
                at.ret
            ));
        }
    }
}
