//! The order of an operand's elements in memory.

use crate::param::Param;

/// In which order the elements of an operand lie in memory, as `#[operand(layout = …)]` declares it.
/// Its shape is told in the order of the dimensions all the same.
///
/// Hosts hand a handler what the program asked for, and call frames do not say which that was: the
/// declaration is for the callers, who find it in the manifest.
///
/// ```
/// use xla_ffi::{Bind, Layout, prelude::*};
///
/// /// Sums each column, whose elements lie side by side.
/// #[xla_ffi::handler(shape = "n m -> m")]
/// fn column_sums(#[operand(layout = "column")] x: Buffer<f32, 2>, mut y: Out<f32, 1>) -> Result<()> {
///     let rows = x.dims()[0];
///     for (column, sum) in y.as_uninit().iter_mut().enumerate() {
///         sum.write(x[column * rows..][..rows].iter().sum());
///     }
///     Ok(())
/// }
///
/// assert_eq!(<Buffer<f32, 2> as Bind>::PARAM.layout, Layout::Row);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The last dimension varies fastest.
    Row,
    /// The first dimension varies fastest.
    Column,
    /// The dimensions from the slowest to the fastest.
    Order(&'static [usize]),
}

/// For the macros: an operand with a layout.
#[must_use]
pub const fn laid_out(mut param: Param, layout: Layout) -> Param {
    assert!(
        param.takes_arg() || param.takes_ret(),
        "#[operand(…)] is for arguments and results"
    );
    if let (Layout::Order(axes), Some(rank)) = (layout, param.rank) {
        assert!(
            axes.len() == rank,
            "a layout names every dimension of the operand"
        );
    }
    if let (Layout::Order(_), None) = (layout, param.rank) {
        panic!("a layout that lists dimensions is for an operand of a fixed rank");
    }
    param.layout = layout;
    param
}
