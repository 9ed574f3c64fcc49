//! Safe access to a buffer of the call frame. All raw access to buffers is in this module. The invariants of the call
//! frame apply.

use crate::frame::element::Element;
use xla_ffi_sys::{XLA_FFI_Buffer, XLA_FFI_DataType};

/// A buffer of the call frame, after a check of the buffer's `struct_size`.
#[derive(Clone, Copy)]
pub struct RawBuffer<'f> {
    raw: &'f XLA_FFI_Buffer,
}

/// A typed view of a buffer that has passed every check. `data` is aligned and not null, and points to `len`
/// elements, the product of `dims`.
///
/// Each typed operand wraps a typed view and adds the permitted access to the elements.
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
    /// Returns the dimensions as an array. The caller has checked that the rank is `RANK`.
    #[inline]
    pub(crate) fn shape<const RANK: usize>(&self) -> [usize; RANK] {
        let mut shape = [0; RANK];
        shape.copy_from_slice(self.dims);
        shape
    }
}

impl<'f> RawBuffer<'f> {
    /// Wraps a buffer, or returns `None` if the buffer's struct is too short.
    ///
    /// # Safety
    /// `raw` points to a buffer that lives as long as `'f`.
    #[inline(always)]
    pub(crate) unsafe fn new(raw: *const XLA_FFI_Buffer) -> Option<Self> {
        // SAFETY: the caller guarantees a valid pointer, and the struct has the same 48 bytes in every revision.
        let raw = unsafe { &*raw };
        (raw.struct_size >= XLA_FFI_Buffer::STRUCT_SIZE).then_some(Self { raw })
    }

    /// Returns the element type of the buffer.
    #[inline(always)]
    pub fn dtype(self) -> XLA_FFI_DataType {
        self.raw.dtype
    }

    #[inline(always)]
    pub(crate) fn rank(self) -> i64 {
        self.raw.rank
    }

    /// Returns the address of the buffer's elements.
    #[inline(always)]
    pub fn data(self) -> *mut std::ffi::c_void {
        self.raw.data
    }

    /// Returns the dimensions from the host, which may be negative.
    #[inline(always)]
    pub(crate) fn raw_dims(self) -> &'f [i64] {
        if self.raw.rank <= 0 || self.raw.dims.is_null() {
            return &[];
        }
        // SAFETY: `dims` has `rank` numbers (ABI), and the frame keeps these numbers alive for 'f.
        unsafe { std::slice::from_raw_parts(self.raw.dims, self.raw.rank as usize) }
    }

    /// Returns the dimensions if their number matches `rank`; `None` matches any number.
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
        // SAFETY: `dims` has `rank` numbers (ABI), and the frame keeps these numbers alive for 'f.
        (!self.raw.dims.is_null())
            .then(|| unsafe { std::slice::from_raw_parts(self.raw.dims, rank) })
    }

    /// Returns the dimensions and their product. Returns `None` if a dimension is negative, the dimensions are
    /// missing, or the product overflows.
    #[inline]
    pub fn shape(self) -> Option<(&'f [usize], usize)> {
        let dims = self.ranked(None)?;
        Some((unsigned(dims), count(dims, 1)?))
    }

    /// Returns the address and the size in bytes of a nonempty buffer.
    pub(crate) fn place(self) -> Option<(usize, usize)> {
        let (_, len) = self.shape()?;
        let bytes = self.dtype().bytes_for(len)?;
        (bytes > 0 && !self.data().is_null()).then(|| (self.data().addr(), bytes))
    }

    /// Returns a typed view of the buffer if all checks succeed. `rank` is `None` for any rank.
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

    /// Makes the same checks as `typed`, for elements of `size` bytes of any type.
    #[inline(always)]
    pub(crate) fn untyped(
        self,
        size: usize,
        align: usize,
        rank: Option<usize>,
    ) -> Option<Typed<'f, u8>> {
        let dims = self.ranked(rank)?;
        let data = self.raw.data.cast::<u8>();
        let view = |data, len| Typed {
            data,
            dims: unsigned(dims),
            len,
        };
        if !data.is_null() && data.addr() % align == 0 {
            if let Some(len) = small_count(dims, size) {
                return Some(view(data, len));
            }
        }
        match reachable(dims, size, data.addr(), align)? {
            // The address of an empty buffer is not checked, because no element is read.
            0 => Some(view(std::ptr::without_provenance_mut(align), 0)),
            len => Some(view(data, len)),
        }
    }
}

/// Converts dimensions to unsigned numbers. The caller must not use the numbers if a dimension is negative.
#[inline(always)]
fn unsigned(dims: &[i64]) -> &[usize] {
    // SAFETY: both types have the same size and alignment on 64-bit hosts (checked in lib.rs).
    unsafe { std::slice::from_raw_parts(dims.as_ptr().cast::<usize>(), dims.len()) }
}

/// Returns the product of up to two dimensions. Returns `None` if a dimension is negative, or so large that the size
/// in bytes could overflow.
#[inline(always)]
fn small_count(dims: &[i64], size: usize) -> Option<usize> {
    let (a, b) = match *dims {
        [] => (1, 1),
        [a] => (a as usize, 1),
        [a, b] => (a as usize, b as usize),
        _ => return None,
    };
    // As an unsigned number, a negative dimension is large.
    let most = (isize::MAX as usize / size).isqrt().min(i32::MAX as usize);
    (a | b <= most).then(|| a * b)
}

/// Returns the number of elements if this number is 0 or the address is valid for the elements.
// `#[inline]` for the same reason as `RawAttrs::position`.
#[cold]
#[inline]
fn reachable(dims: &[i64], size: usize, address: usize, align: usize) -> Option<usize> {
    let len = count(dims, size)?;
    (len == 0 || (address != 0 && address & (align - 1) == 0)).then_some(len)
}

/// Returns the product of dimensions, or `None` if a dimension is negative or the number of elements or bytes is too
/// large.
#[cold]
#[inline]
fn count(dims: &[i64], size: usize) -> Option<usize> {
    let len = dims.iter().try_fold(1_usize, |len, &dim| {
        Some(len.saturating_mul(usize::try_from(dim).ok()?))
    })?;
    (len.saturating_mul(size) <= isize::MAX as usize).then_some(len)
}

/// Functions for uninitialized slices that are written element by element. The standard library's versions require
/// a newer Rust than this crate's minimum version.
pub(crate) mod uninit {
    use std::mem::MaybeUninit;

    /// Copies `source` into `room`, which has the same length.
    #[inline]
    pub(crate) fn copy<'a, T: Copy>(room: &'a mut [MaybeUninit<T>], source: &[T]) -> &'a mut [T] {
        assert_eq!(room.len(), source.len(), "elements to copy");
        for (slot, value) in room.iter_mut().zip(source) {
            slot.write(*value);
        }
        // SAFETY: the loop wrote every element.
        unsafe { written(room) }
    }

    /// Converts a fully written slice to an initialized slice.
    ///
    /// # Safety
    /// Every element is initialized.
    #[inline]
    pub(crate) unsafe fn written<T>(room: &mut [MaybeUninit<T>]) -> &mut [T] {
        // SAFETY: a `MaybeUninit<T>` has the layout of a `T`, and the caller guarantees that the elements are
        // initialized.
        unsafe { &mut *(std::ptr::from_mut(room) as *mut [T]) }
    }
}
