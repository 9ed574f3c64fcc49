//! A buffer of the call frame, read safely: the one home of raw access to it. The invariants are
//! those of the frame.

use crate::bind::region::Region;
use crate::call::doubt::Doubt;
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

    /// The memory of the elements.
    #[inline(always)]
    pub(crate) fn region(&self) -> Region {
        // It wraps around only in a guess that nobody uses.
        Region::new(self.data.cast(), self.len.wrapping_mul(size_of::<T>()))
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

    /// The dimensions of a buffer that has `rank` of them.
    ///
    /// # Safety
    /// It has.
    #[inline(always)]
    unsafe fn fixed_dims(self, rank: usize) -> Option<&'f [i64]> {
        if rank == 0 {
            return Some(&[]);
        }
        // SAFETY: `dims` holds `rank` numbers (ABI), and the frame keeps them alive for 'f.
        (!self.raw.dims.is_null())
            .then(|| unsafe { std::slice::from_raw_parts(self.raw.dims, rank) })
    }

    /// The dimensions, as many as the buffer has and as `rank` says; `None` for any.
    #[inline(always)]
    fn ranked(self, rank: Option<usize>) -> Option<&'f [i64]> {
        if let Some(rank) = rank {
            if self.raw.rank != rank as i64 {
                return None;
            }
            // SAFETY: the rank is as many.
            return unsafe { self.fixed_dims(rank) };
        }
        let dims = self.raw_dims();
        (dims.len() as i64 == self.raw.rank).then_some(dims)
    }

    /// The dimensions and their product; `None` when a dimension is negative, there are none where
    /// the rank says so, or the product overflows.
    #[inline]
    pub(crate) fn shape(self) -> Option<(&'f [usize], usize)> {
        let dims = self.ranked(None)?;
        Some((unsigned(dims), count(dims, 0)?))
    }

    /// The bytes of its elements; `None` for shapes and types whose bytes cannot be counted, and where
    /// they lie nowhere.
    pub(crate) fn region(self) -> Option<Region> {
        let (_, len) = self.shape()?;
        let bytes = byte_size(self.dtype(), len)?;
        let data = self.data().cast_const().cast();
        (bytes == 0 || !self.data().is_null()).then(|| Region::new(data, bytes))
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

    /// The same with the number and the place of the elements left to `doubt`: what it gives holds where that
    /// resolves.
    #[inline(always)]
    pub(crate) fn guess<T: Element>(
        self,
        rank: Option<usize>,
        doubt: &mut Doubt,
    ) -> Option<Typed<'f, T>> {
        const { assert!(size_of::<T>() <= 16 && align_of::<T>() <= 16) };
        if self.raw.dtype != doubt.dtype(T::DTYPE) {
            return None;
        }
        let dims = match rank {
            Some(rank) if self.raw.rank != doubt.rank(rank) => return None,
            // SAFETY: the rank is as many.
            Some(rank) => unsafe { self.fixed_dims(rank)? },
            None => self.ranked(None)?,
        };
        let data = self.raw.data.cast();
        Some(Typed {
            data,
            dims: unsigned(dims),
            len: doubt.count(dims, data),
        })
    }

    /// The same as `typed` for elements of `size` bytes, whatever their type.
    #[inline]
    pub(crate) fn untyped(
        self,
        size: usize,
        align: usize,
        rank: Option<usize>,
    ) -> Option<Typed<'f, u8>> {
        let dims = self.ranked(rank)?;
        let len = count(dims, size)?;
        let mut data = self.raw.data.cast::<u8>();
        if data.is_null() || data as usize % align != 0 {
            if len != 0 {
                return None;
            }
            // No elements lie anywhere.
            data = std::ptr::without_provenance_mut(align);
        }
        Some(Typed {
            data,
            dims: unsigned(dims),
            len,
        })
    }
}

/// Dimensions of which none is negative, or that nobody looks at.
#[inline(always)]
fn unsigned(dims: &[i64]) -> &[usize] {
    // SAFETY: same size and alignment on 64-bit hosts (checked in lib.rs).
    unsafe { std::slice::from_raw_parts(dims.as_ptr().cast::<usize>(), dims.len()) }
}

/// The product of dimensions; `None` when one is negative, or the product or that of the bytes is too large.
// Inline for the same reason as `RawAttrs::position`.
#[inline]
fn count(dims: &[i64], size: usize) -> Option<usize> {
    if dims.iter().any(|&dim| dim < 0) {
        return None;
    }
    if dims.contains(&0) {
        return Some(0);
    }
    let product = dims
        .iter()
        .try_fold(1usize, |product, &dim| product.checked_mul(dim as usize))?;
    (product.checked_mul(size)? <= isize::MAX as usize).then_some(product)
}
