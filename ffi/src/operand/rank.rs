//! Ranks as parameters of types.

/// In place of a rank: any rank.
///
/// ```
/// use xla_ffi::{ANY_RANK, Buffer};
///
/// fn mean(x: Buffer<'_, f32, ANY_RANK>) -> f32 { // the same as Buffer<'_, f32>
///     x.iter().sum::<f32>() / x.len() as f32
/// }
///
/// // `typed` wants the rank named, or this.
/// #[xla_ffi::handler]
/// fn average(x: xla_ffi::AnyBuffer, mut y: xla_ffi::Out<f32, 0>) -> xla_ffi::Result<()> {
///     y.fill(mean(x.typed::<f32, ANY_RANK>()?));
///     Ok(())
/// }
/// # use xla_ffi::internal::{self, DType, Shape, Tensor};
/// let call = internal::call::<average>("{}")?
///     .arg(Tensor::from_slice([2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?)
///     .ret(Shape::new(DType::F32, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2.5_f32]));
/// # Ok::<(), internal::Error>(())
/// ```
pub const ANY_RANK: usize = usize::MAX;

/// The rank that a type parameter means; `None` for any.
#[inline(always)]
pub(crate) const fn rank(rank: usize) -> Option<usize> {
    if rank == ANY_RANK {
        return None;
    }
    // A frame's rank is signed, and as many dimensions lie in memory.
    assert!(rank <= u32::MAX as usize, "no array has so many dimensions");
    Some(rank)
}
