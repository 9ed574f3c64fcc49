//! Safe access to the attributes of the call frame. All raw access to attributes is in this module. The invariants of
//! the call frame apply.

use std::cmp::Ordering;
use std::ffi::c_void;
use std::marker::PhantomData;

use crate::frame::element::Element;
use xla_ffi_sys::{
    XLA_FFI_Array, XLA_FFI_AttrType, XLA_FFI_Attrs, XLA_FFI_ByteSpan, XLA_FFI_DataType,
    XLA_FFI_Scalar,
};

/// Reads the value at `index` of a list.
///
/// # Safety
/// The list has more than `index` values.
#[inline(always)]
pub(crate) unsafe fn element<T: Copy>(list: *const T, index: usize) -> T {
    // SAFETY: the caller guarantees that `index` is in range.
    let place = unsafe { list.add(index) };
    // SAFETY: the caller guarantees that `index` is in range.
    unsafe { place.read() }
}

/// A dictionary in the call frame, or the attributes of the call.
#[derive(Clone, Copy)]
pub(crate) struct RawAttrs<'f> {
    raw: *const XLA_FFI_Attrs,
    _frame: PhantomData<&'f ()>,
}

/// The value of an attribute in the call frame.
#[derive(Clone, Copy)]
pub(crate) struct RawAttr<'f> {
    tag: XLA_FFI_AttrType,
    // The address of the value's pointer, which is read only after the tag is checked. Reading both at once and
    // combining the checks would be slower.
    place: *const *mut c_void,
    _frame: PhantomData<&'f ()>,
}

impl<'f> RawAttrs<'f> {
    /// Returns the attributes of a frame.
    ///
    /// # Safety
    /// `raw` points to attributes of at least 48 bytes that live as long as `'f`.
    #[inline(always)]
    pub(crate) unsafe fn of_frame(raw: *const XLA_FFI_Attrs) -> Self {
        Self {
            raw,
            _frame: PhantomData,
        }
    }

    /// Returns a dictionary that the host passed outside the frame, or `None` if the dictionary's
    /// struct is too short.
    ///
    /// # Safety
    /// `raw` is null or points to attributes that live as long as `'f`.
    pub(crate) unsafe fn from_host(raw: *const XLA_FFI_Attrs) -> Option<Self> {
        // SAFETY: the caller guarantees that `raw` is null or valid.
        let attrs = unsafe { raw.as_ref()? };
        (attrs.struct_size >= XLA_FFI_Attrs::STRUCT_SIZE).then_some(Self {
            raw,
            _frame: PhantomData,
        })
    }

    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        // SAFETY: the `struct_size` was checked when `self` was created.
        usize::try_from(unsafe { (*self.raw).size }).unwrap_or(0)
    }

    /// Returns the name at `index`, which is less than [`RawAttrs::len`].
    #[inline(always)]
    pub(crate) fn name(self, index: usize) -> &'f [u8] {
        // SAFETY: the `struct_size` was checked when `self` was created.
        let names = unsafe { (*self.raw).names };
        // SAFETY: `index` is less than `size`, and the list has `size` entries (invariant 2).
        let span = unsafe { element(names, index) };
        // SAFETY: the names of attributes are byte spans (invariant 2).
        let span = unsafe { &*span };
        // SAFETY: the bytes live for 'f (invariant 3).
        unsafe { bytes(span) }
    }

    /// Returns true if the name at `index`, which is less than [`RawAttrs::len`], is `name`.
    #[inline(always)]
    fn is_named(self, index: usize, name: &str) -> bool {
        // SAFETY: the `struct_size` was checked when `self` was created.
        let names = unsafe { (*self.raw).names };
        // SAFETY: `index` is less than `size`, and the list has `size` entries (invariant 2).
        let span = unsafe { element(names, index) };
        // SAFETY: the names of attributes are byte spans (invariant 2).
        let span = unsafe { &*span };
        // Compare the lengths first, so that the compiler compares the bytes as words instead of by a function call.
        if span.len != name.len() {
            return false;
        }
        // SAFETY: the bytes live for 'f (invariant 3).
        (unsafe { bytes(span) }) == name.as_bytes()
    }

    /// Returns the value at `index`, which is less than [`RawAttrs::len`].
    #[inline(always)]
    pub(crate) fn value(self, index: usize) -> RawAttr<'f> {
        // SAFETY: the `struct_size` was checked when `self` was created.
        let types = unsafe { (*self.raw).types };
        // SAFETY: the `struct_size` was checked when `self` was created.
        let attrs = unsafe { (*self.raw).attrs };
        // SAFETY: `index` is less than `size`, and the list has `size` entries (invariant 2).
        let tag = unsafe { element(types, index) };
        // SAFETY: `index` is less than `size`, and the list has `size` entries (invariant 2).
        let place = unsafe { attrs.add(index) };
        RawAttr {
            tag,
            place,
            _frame: PhantomData,
        }
    }

    /// Returns the attribute `name`, which is probably at `guess`.
    #[inline(always)]
    pub(crate) fn get(self, name: &str, guess: usize) -> Option<RawAttr<'f>> {
        let len = self.len();
        let mut index = guess;
        if !(guess < len && self.is_named(guess, name)) {
            index = self.position(name);
            if index >= len {
                return None;
            }
        }
        Some(self.value(index))
    }

    /// Returns the index of the attribute `name`, or the number of attributes if there is no such
    /// attribute.
    // `#[inline]` makes the body visible in the caller's crate. The compiler then knows that the function writes
    // nothing, and does not reload values after the call. `#[cold]` prevents inlining.
    #[cold]
    #[inline]
    fn position(self, name: &str) -> usize {
        if self.len() > FEW {
            if let Some(index) = self.search(name) {
                return index;
            }
        }
        let mut index = 0;
        while index < self.len() && !self.is_named(index, name) {
            index += 1;
        }
        index
    }

    /// Searches by bisection, because hosts sort attributes by the bytes of their names. If a host does not sort its
    /// attributes, the search may miss an existing attribute.
    // `#[inline]` for the same reason as `position`. Without it, decoding eight attributes was 1.9 ns slower, even if
    // `search` was not called.
    #[cold]
    #[inline]
    fn search(self, name: &str) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.name(middle).cmp(name.as_bytes()) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// Up to this number of attributes, a linear search is as fast as bisection.
const FEW: usize = 32;

/// Returns the bytes of a span.
///
/// # Safety
/// The span's bytes live as long as `'f`.
#[inline(always)]
unsafe fn bytes<'f>(span: &XLA_FFI_ByteSpan) -> &'f [u8] {
    if span.len == 0 || span.ptr.is_null() {
        return &[];
    }
    // SAFETY: a span has `len` bytes (ABI).
    unsafe { std::slice::from_raw_parts(span.ptr.cast(), span.len) }
}

impl<'f> RawAttr<'f> {
    /// Returns the value of the attribute if the tag is `tag` and the value's pointer is not null.
    ///
    /// # Safety
    /// Values with the tag `tag` are of type `T`.
    #[inline(always)]
    unsafe fn value<T>(self, tag: XLA_FFI_AttrType) -> Option<&'f T> {
        if self.tag != tag {
            return None;
        }
        // SAFETY: there are as many values as tags (invariant 2).
        let value = unsafe { self.place.read() };
        // SAFETY: a value is null or has the type that its tag denotes (invariant 2). The caller guarantees that this
        // type is `T`.
        unsafe { value.cast::<T>().as_ref() }
    }

    #[inline(always)]
    pub(crate) fn scalar(self) -> Option<RawScalar<'f>> {
        // SAFETY: `XLA_FFI_Scalar` is the type of scalars in the ABI.
        let scalar: &XLA_FFI_Scalar = unsafe { self.value(XLA_FFI_AttrType::SCALAR) }?;
        (!scalar.value.is_null()).then_some(RawScalar { scalar })
    }

    #[inline(always)]
    pub(crate) fn array(self) -> Option<RawArray<'f>> {
        // SAFETY: `XLA_FFI_Array` is the type of arrays in the ABI.
        let array: &XLA_FFI_Array = unsafe { self.value(XLA_FFI_AttrType::ARRAY) }?;
        Some(RawArray { array })
    }

    #[inline(always)]
    pub(crate) fn string(self) -> Option<&'f [u8]> {
        // SAFETY: `XLA_FFI_ByteSpan` is the type of strings in the ABI.
        let span: &XLA_FFI_ByteSpan = unsafe { self.value(XLA_FFI_AttrType::STRING) }?;
        // A null pointer with a nonzero length is not an empty string.
        if span.ptr.is_null() && span.len != 0 {
            return None;
        }
        // SAFETY: the bytes live for 'f (invariant 3).
        Some(unsafe { bytes(span) })
    }

    #[inline(always)]
    pub(crate) fn dictionary(self) -> Option<RawAttrs<'f>> {
        // SAFETY: `XLA_FFI_Attrs` is the type of dictionaries in the ABI.
        let dictionary: &XLA_FFI_Attrs = unsafe { self.value(XLA_FFI_AttrType::DICTIONARY) }?;
        // SAFETY: the dictionary is valid as long as the call frame.
        unsafe { RawAttrs::from_host(dictionary) }
    }
}

/// A scalar attribute of the call frame.
#[derive(Clone, Copy)]
pub(crate) struct RawScalar<'f> {
    scalar: &'f XLA_FFI_Scalar,
}

impl RawScalar<'_> {
    #[inline(always)]
    pub(crate) fn dtype(self) -> XLA_FFI_DataType {
        self.scalar.dtype
    }

    /// Returns the scalar's value if the scalar is of type `T`.
    #[inline(always)]
    pub(crate) fn get<T: Element>(self) -> Option<T> {
        if self.scalar.dtype != T::DTYPE {
            return None;
        }
        // SAFETY: the pointer is not null (checked on creation), and the dtype identifies T. The value may be
        // unaligned.
        Some(unsafe { self.scalar.value.cast::<T>().read_unaligned() })
    }
}

impl RawScalar<'_> {
    /// Returns the bytes of the value in a `u128`, which is large enough and aligned for every
    /// type.
    pub(crate) fn bits(self) -> u128 {
        let size = self.scalar.dtype.bits().map_or(0, |bits| bits.div_ceil(8));
        let mut bits = 0u128;
        // SAFETY: the value has `size` bytes according to its type, and a u128 is at least as large.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.scalar.value.cast::<u8>(),
                (&raw mut bits).cast::<u8>(),
                size,
            );
        }
        bits
    }
}

/// An array attribute of the call frame.
#[derive(Clone, Copy)]
pub(crate) struct RawArray<'f> {
    array: &'f XLA_FFI_Array,
}

impl<'f> RawArray<'f> {
    pub(crate) fn dtype(self) -> XLA_FFI_DataType {
        self.array.dtype
    }

    pub(crate) fn len(self) -> usize {
        self.array.size
    }

    /// Returns the address of the elements, which may be null or unaligned.
    pub(crate) fn data(self) -> *const c_void {
        self.array.data.cast_const()
    }

    /// Returns a copy of the elements if they are of type `T`, whatever their alignment.
    pub(crate) fn copied<T: Element>(self) -> Option<Vec<T>> {
        if self.array.dtype != T::DTYPE {
            return None;
        }
        let data = self.array.data.cast_const().cast::<T>();
        if self.array.size == 0 {
            return Some(Vec::new());
        }
        if data.is_null() || self.array.size > isize::MAX as usize / size_of::<T>() {
            return None;
        }
        let element = |index| {
            // SAFETY: `index` is less than `size`, the number of elements of type T (ABI).
            let place = unsafe { data.add(index) };
            // SAFETY: `place` is an element of the array. The element may be unaligned.
            unsafe { place.read_unaligned() }
        };
        Some((0..self.array.size).map(element).collect())
    }

    /// Returns the bytes of the elements, whatever their type. A null pointer with a nonzero size is an error.
    pub(crate) fn bytes(self) -> Option<&'f [u8]> {
        let bytes = self.array.dtype.bytes_for(self.array.size)?;
        if bytes == 0 {
            return Some(&[]);
        }
        if self.array.data.is_null() {
            return None;
        }
        // SAFETY: the array has this number of bytes by its type and size. The bytes live for 'f and are never
        // written.
        Some(unsafe { std::slice::from_raw_parts(self.array.data.cast(), bytes) })
    }

    /// Returns a copy of the bytes in memory that is aligned for every type.
    pub(crate) fn aligned_copy(self) -> Vec<u128> {
        let words = self.bytes().unwrap_or_default().chunks(size_of::<u128>());
        words
            .map(|bytes| {
                let mut word = [0; size_of::<u128>()];
                word[..bytes.len()].copy_from_slice(bytes);
                u128::from_ne_bytes(word)
            })
            .collect()
    }

    /// Returns the elements if they are of type `T` and aligned for `T`.
    #[inline(always)]
    pub(crate) fn get<T: Element>(self) -> Option<&'f [T]> {
        if self.array.dtype != T::DTYPE {
            return None;
        }
        if self.array.size == 0 {
            return Some(&[]);
        }
        let data = self.array.data.cast::<T>();
        if data.is_null()
            || !data.is_aligned()
            || self.array.size > isize::MAX as usize / size_of::<T>()
        {
            return None;
        }
        // SAFETY: there are `size` elements of type T (ABI), at an aligned non-null address. The elements live for 'f
        // and are never written.
        Some(unsafe { std::slice::from_raw_parts(data, self.array.size) })
    }
}
