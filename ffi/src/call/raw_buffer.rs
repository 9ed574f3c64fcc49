//! A buffer of the call frame, read safely: the one home of raw access to it. The invariants are
//! those of the frame.

use crate::bind::region::Region;
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
        Region::new(self.data.cast(), self.len * size_of::<T>())
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

    /// The dimensions and their product; `None` when a dimension is negative, there are none where
    /// the rank says so, or the product overflows.
    #[inline(always)]
    pub(crate) fn shape(self) -> Option<(&'f [usize], usize)> {
        self.shape_of(0)
    }

    /// The same for elements of `size` bytes; `None` also when there are more bytes than can be addressed.
    #[inline(always)]
    fn shape_of(self, size: usize) -> Option<(&'f [usize], usize)> {
        let dims = self.raw_dims();
        if dims.len() as i64 != self.raw.rank {
            return None;
        }
        // The product of two small dimensions does not overflow. This is for ranks that are constants: those of others
        // are multiplied in a loop either way.
        let bits = dims.iter().fold(0, |bits, &dim| bits | dim as u64);
        let len = if dims.len() <= 2 && bits >> 28 == 0 && size <= 16 {
            dims.iter().map(|&dim| dim as usize).product()
        } else {
            count(dims, size)?
        };
        // SAFETY: same size and alignment on 64-bit hosts (checked in lib.rs), no value negative.
        let dims = unsafe { std::slice::from_raw_parts(dims.as_ptr().cast::<usize>(), dims.len()) };
        Some((dims, len))
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

    /// The same for elements of `size` bytes, whatever their type.
    #[inline(always)]
    pub(crate) fn untyped(
        self,
        size: usize,
        align: usize,
        rank: Option<usize>,
    ) -> Option<Typed<'f, u8>> {
        if let Some(rank) = rank {
            if self.raw.rank != rank as i64 {
                return None;
            }
        }
        let (dims, len) = self.shape_of(size)?;
        let mut data = self.raw.data.cast::<u8>();
        if !usable(data, align) {
            data = nowhere(len, align)?;
        }
        Some(Typed { data, dims, len })
    }
}

/// What stands for the address of no elements; `None` where there are some, which lie where they cannot be used.
#[cold]
#[inline]
fn nowhere(len: usize, align: usize) -> Option<*mut u8> {
    (len == 0).then(|| std::ptr::without_provenance_mut(align))
}

/// Whether `data` is not null and a multiple of `align`, a power of two.
#[inline(always)]
fn usable(data: *mut u8, align: usize) -> bool {
    // One comparison for both: low bits that are set become high ones, and null wraps around.
    let bits = align.trailing_zeros();
    (data as usize).rotate_right(bits).wrapping_sub(1) < usize::MAX >> bits
}

/// The product of dimensions; `None` when one is negative, or the product or that of the bytes is too large.
// Inline for the same reason as `RawAttrs::position`.
#[cold]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usable_addresses_are_aligned_and_not_null() {
        for align in [1usize, 2, 4, 8, 16, 64] {
            for address in (0..256)
                .chain((1 << 47)..(1 << 47) + 256)
                .chain(usize::MAX - 255..usize::MAX)
            {
                let data = std::ptr::without_provenance_mut(address);
                let expected = address != 0 && address.is_multiple_of(align);
                assert_eq!(usable(data, align), expected, "{address:#x} by {align}");
            }
        }
    }
}
