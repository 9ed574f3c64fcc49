//! How a parameter of a handler is decoded from the call.

use crate::diagnose::Problems;
use crate::frame::Frame;
use crate::param::{At, Param};

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
}

/// A range of addresses in host memory; empty ones overlap nothing.
///
/// ```
/// use xla_ffi::Region;
///
/// let elements = [0_u8; 16];
/// let (low, high) = (Region::new(&elements[0], 8), Region::new(&elements[8], 8));
/// assert!(!low.overlaps(high));
/// assert!(low.overlaps(Region::new(&elements[7], 1)));
/// assert!(!Region::EMPTY.overlaps(low));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Region {
    // Invariant: `start` is below `end`, or the region is EMPTY.
    start: usize,
    end: usize,
}

impl Region {
    /// Nothing. It ends before it starts, so that no comparison finds it to overlap anything.
    pub const EMPTY: Self = Self {
        start: usize::MAX,
        end: 0,
    };

    /// `bytes` bytes from `start`, which do not wrap around.
    #[must_use]
    #[inline(always)]
    pub fn new(start: *const u8, bytes: usize) -> Self {
        let start = start as usize;
        if bytes == 0 {
            return Self::EMPTY;
        }
        Self {
            start,
            end: start.wrapping_add(bytes),
        }
    }

    /// Whether the two share a byte.
    #[must_use]
    #[inline(always)]
    pub fn overlaps(self, other: Self) -> bool {
        // `&` keeps this without branches: there is one comparison for each pair of operands.
        (self.start < other.end) & (other.start < self.end)
    }
}

/// Whether no result shares memory with an argument or another result.
#[inline(always)]
pub(crate) fn disjoint<const A: usize, const R: usize>(
    args: &[Region; A],
    rets: &[Region; R],
) -> bool {
    let mut overlap = false;
    let mut r = 0;
    while r < R {
        let mut a = 0;
        while a < A {
            overlap |= rets[r].overlaps(args[a]);
            a += 1;
        }
        let mut other = 0;
        while other < r {
            overlap |= rets[r].overlaps(rets[other]);
            other += 1;
        }
        r += 1;
    }
    !overlap
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: usize, end: usize) -> Region {
        Region::new(std::ptr::without_provenance(start), end - start)
    }

    #[test]
    fn regions_overlap_when_they_share_a_byte() {
        let a = region(16, 32);
        assert!(a.overlaps(region(31, 40)));
        assert!(a.overlaps(region(0, 17)));
        assert!(a.overlaps(region(20, 21)));
        assert!(!a.overlaps(region(32, 40)));
        assert!(!a.overlaps(region(0, 16)));
        assert!(!a.overlaps(region(20, 20)));
        assert!(!region(20, 20).overlaps(a));
        assert!(!region(0, 0).overlaps(region(0, 0)));
        assert!(!Region::EMPTY.overlaps(region(0, usize::MAX)));
    }

    #[test]
    fn results_may_not_overlap_each_other() {
        let (a, b) = (region(0, 8), region(8, 16));
        assert!(disjoint(&[a], &[b]));
        assert!(!disjoint(&[a], &[b, region(12, 20)]));
        assert!(!disjoint(&[a, b], &[region(15, 16)]));
        assert!(disjoint(&[a, a], &[b]));
    }
}
