//! A buffer of the call frame, read safely: the one home of raw access to it. The invariants are
//! those of the frame.

use crate::operand::element::{Element, byte_size};
use xla_ffi_sys::{XLA_FFI_Buffer, XLA_FFI_DataType};

/// A buffer of the frame whose `struct_size` has been checked.
#[derive(Clone, Copy)]
pub(crate) struct RawBuffer<'f> {
    raw: &'f XLA_FFI_Buffer,
}

/// A typed view of a buffer that has passed every check: `data` is aligned and not null, and names
/// `len` elements, the product of `dims`.
///
/// Typed operands are one of these each, and add what may be done with the elements.
pub(crate) struct Typed<'f, T> {
    pub(crate) data: *mut T,
    pub(crate) dims: &'f [usize],
    pub(crate) len: usize,
}

impl<T> Clone for Typed<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Typed<'_, T> {}

impl<T: Element> Typed<'_, T> {
    /// The dimensions as an array of as many: the caller has a fixed rank.
    #[inline]
    pub(crate) fn shape<const RANK: usize>(&self) -> [usize; RANK] {
        let mut shape = [0; RANK];
        shape.copy_from_slice(self.dims);
        shape
    }
}

impl<'f> RawBuffer<'f> {
    /// # Safety
    /// `raw` is null or points to a buffer that lives as long as `'f`.
    #[inline(always)]
    pub(crate) unsafe fn new(raw: *const XLA_FFI_Buffer) -> Option<Self> {
        // SAFETY: the caller's promise; the struct has the same 48 bytes in every revision.
        let raw = unsafe { raw.as_ref()? };
        (raw.struct_size >= XLA_FFI_Buffer::STRUCT_SIZE).then_some(Self { raw })
    }

    #[inline(always)]
    pub(crate) fn dtype(self) -> XLA_FFI_DataType {
        self.raw.dtype
    }

    #[inline(always)]
    pub(crate) fn rank(self) -> i64 {
        self.raw.rank
    }

    #[inline(always)]
    pub(crate) fn data(self) -> *mut std::ffi::c_void {
        self.raw.data
    }

    /// The dimensions as the host gives them, negative ones included.
    #[inline(always)]
    pub(crate) fn raw_dims(self) -> &'f [i64] {
        if self.raw.rank <= 0 || self.raw.dims.is_null() {
            return &[];
        }
        // SAFETY: `dims` holds `rank` numbers (ABI), and the frame keeps them alive for 'f.
        unsafe { std::slice::from_raw_parts(self.raw.dims, self.raw.rank as usize) }
    }

    /// The dimensions, as many as the buffer has and as `rank` says; `None` for any.
    #[inline(always)]
    fn ranked(self, rank: Option<usize>) -> Option<&'f [i64]> {
        let Some(rank) = rank else {
            let dims = self.raw_dims();
            return (dims.len() as i64 == self.raw.rank).then_some(dims);
        };
        if self.raw.rank != rank as i64 {
            return None;
        }
        if rank == 0 {
            return Some(&[]);
        }
        // SAFETY: `dims` holds `rank` numbers (ABI), and the frame keeps them alive for 'f.
        (!self.raw.dims.is_null())
            .then(|| unsafe { std::slice::from_raw_parts(self.raw.dims, rank) })
    }

    /// The dimensions and their product; `None` when a dimension is negative, there are none where
    /// the rank says so, or the product overflows.
    #[inline]
    pub(crate) fn shape(self) -> Option<(&'f [usize], usize)> {
        let dims = self.ranked(None)?;
        Some((unsigned(dims), count(dims, 1)?))
    }

    /// The address and the number of bytes of a buffer that has any.
    pub(crate) fn place(self) -> Option<(usize, usize)> {
        let (_, len) = self.shape()?;
        let bytes = byte_size(self.dtype(), len)?;
        (bytes > 0 && !self.data().is_null()).then(|| (self.data().addr(), bytes))
    }

    /// Checks everything that a typed view needs; `rank` is `None` for any.
    #[inline(always)]
    pub(crate) fn typed<T: Element>(self, rank: Option<usize>) -> Option<Typed<'f, T>> {
        if self.raw.dtype != T::DTYPE {
            return None;
        }
        self.untyped(size_of::<T>(), align_of::<T>(), rank)
            .map(|view| Typed {
                data: view.data.cast(),
                dims: view.dims,
                len: view.len,
            })
    }

    /// The same as `typed` for elements of `size` bytes, whatever their type.
    #[inline(always)]
    pub(crate) fn untyped(
        self,
        size: usize,
        align: usize,
        rank: Option<usize>,
    ) -> Option<Typed<'f, u8>> {
        let dims = self.ranked(rank)?;
        let view = |data, len| Typed {
            data,
            dims: unsigned(dims),
            len,
        };
        let data = self.raw.data.cast::<u8>();
        // No elements may be anywhere.
        let nowhere = view(std::ptr::without_provenance_mut(align), 0);
        if data.is_null() {
            return has_zero(dims).then_some(nowhere);
        }
        let len = count(dims, size)?;
        if data.addr() % align != 0 {
            return (len == 0).then_some(nowhere);
        }
        Some(view(data, len))
    }
}

/// Dimensions of which none is negative, or that nobody looks at.
#[inline(always)]
fn unsigned(dims: &[i64]) -> &[usize] {
    // SAFETY: same size and alignment on 64-bit hosts (checked in lib.rs).
    unsafe { std::slice::from_raw_parts(dims.as_ptr().cast::<usize>(), dims.len()) }
}

/// The product of dimensions; `None` if one is negative, or the product or the number of bytes is too large.
#[inline(always)]
fn count(dims: &[i64], size: usize) -> Option<usize> {
    // As an unsigned number a negative dimension is so large that the product is too large, unless another one is zero.
    let product = dims
        .iter()
        .try_fold(1_usize, |product, &dim| product.checked_mul(dim as usize));
    match product {
        Some(len) if len.wrapping_sub(1) < isize::MAX as usize / size => Some(len),
        _ => has_zero(dims).then_some(0),
    }
}

/// Whether a dimension is zero and none is negative.
// Inline for the same reason as `RawAttrs::position`.
#[cold]
#[inline]
fn has_zero(dims: &[i64]) -> bool {
    dims.contains(&0) && dims.iter().all(|&dim| dim >= 0)
}
