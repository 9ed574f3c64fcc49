//! Attributes of the call frame, read safely: the one home of raw access to them. The invariants are
//! those of the frame.

use std::cmp::Ordering;
use std::ffi::c_void;
use std::marker::PhantomData;

use crate::frame::element::Element;
use xla_ffi_sys::{
    XLA_FFI_Array, XLA_FFI_AttrType, XLA_FFI_Attrs, XLA_FFI_ByteSpan, XLA_FFI_DataType,
    XLA_FFI_Scalar,
};

/// The value at `index` of a list.
///
/// # Safety
/// The list has more than `index` values.
#[inline(always)]
pub(crate) unsafe fn element<T: Copy>(list: *const T, index: usize) -> T {
    // SAFETY: the caller's promise.
    let place = unsafe { list.add(index) };
    // SAFETY: as above.
    unsafe { place.read() }
}

/// A dictionary of the frame.
#[derive(Clone, Copy)]
pub(crate) struct RawAttrs<'f> {
    raw: *const XLA_FFI_Attrs,
    _frame: PhantomData<&'f ()>,
}

/// The value of an attribute.
#[derive(Clone, Copy)]
pub(crate) struct RawAttr<'f> {
    tag: XLA_FFI_AttrType,
    // Where its pointer lies, which is read once the tag is known: two loads that are judged by two
    // branches cost less than two that are merged into one test.
    place: *const *mut c_void,
    _frame: PhantomData<&'f ()>,
}

impl<'f> RawAttrs<'f> {
    /// The attributes of a frame.
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

    /// A dictionary that the host handed out beside the frame; `None` when it is too short.
    ///
    /// # Safety
    /// `raw` is null or points to attributes that live as long as `'f`.
    pub(crate) unsafe fn from_host(raw: *const XLA_FFI_Attrs) -> Option<Self> {
        // SAFETY: the caller's promise.
        let attrs = unsafe { raw.as_ref()? };
        (attrs.struct_size >= XLA_FFI_Attrs::STRUCT_SIZE).then_some(Self {
            raw,
            _frame: PhantomData,
        })
    }

    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        // SAFETY: made from attributes whose struct_size was checked.
        usize::try_from(unsafe { (*self.raw).size }).unwrap_or(0)
    }

    /// The name at `index`, which is below [`RawAttrs::len`].
    #[inline(always)]
    pub(crate) fn name(self, index: usize) -> &'f [u8] {
        // SAFETY: made from attributes whose struct_size was checked.
        let names = unsafe { (*self.raw).names };
        // SAFETY: invariant 2, `index` is in range.
        let span = unsafe { element(names, index) };
        // SAFETY: invariant 2: names are byte spans.
        let span = unsafe { &*span };
        // SAFETY: invariant 3.
        unsafe { bytes(span) }
    }

    /// Whether the name at `index`, which is below [`RawAttrs::len`], is `name`.
    #[inline(always)]
    fn is_named(self, index: usize, name: &str) -> bool {
        // SAFETY: made from attributes whose struct_size was checked.
        let names = unsafe { (*self.raw).names };
        // SAFETY: invariant 2, `index` is in range.
        let span = unsafe { element(names, index) };
        // SAFETY: invariant 2: names are byte spans.
        let span = unsafe { &*span };
        // The length first: then the bytes are compared as words, not by a call.
        if span.len != name.len() {
            return false;
        }
        // SAFETY: invariant 3.
        (unsafe { bytes(span) }) == name.as_bytes()
    }

    /// The value at `index`, which is below [`RawAttrs::len`].
    #[inline(always)]
    pub(crate) fn value(self, index: usize) -> RawAttr<'f> {
        // SAFETY: made from attributes whose struct_size was checked.
        let types = unsafe { (*self.raw).types };
        // SAFETY: as above.
        let attrs = unsafe { (*self.raw).attrs };
        // SAFETY: invariant 2, `index` is in range.
        let tag = unsafe { element(types, index) };
        // SAFETY: invariant 2, `index` is in range.
        let place = unsafe { attrs.add(index) };
        RawAttr {
            tag,
            place,
            _frame: PhantomData,
        }
    }

    /// The attribute `name`, which is probably at `guess`.
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

    /// Where the attribute `name` lies; the number of attributes when there is none.
    // Inline, though it is never inlined: a copy beside its caller is seen to write nothing, so that
    // what the caller has read need not be read again.
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

    /// The same by halving: hosts sort attributes by the bytes of the names. Not found, it may be there all the same, where a
    /// host does not.
    // Inline as `position` is: where it was not, eight attributes took 1.9 ns more, though nothing called it.
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

/// Of so many attributes at most the names are compared one after the other, which costs no more.
const FEW: usize = 32;

/// # Safety
/// The span's bytes live as long as `'f`.
#[inline(always)]
unsafe fn bytes<'f>(span: &XLA_FFI_ByteSpan) -> &'f [u8] {
    if span.len == 0 || span.ptr.is_null() {
        return &[];
    }
    // SAFETY: a span names `len` bytes (ABI).
    unsafe { std::slice::from_raw_parts(span.ptr.cast(), span.len) }
}

impl<'f> RawAttr<'f> {
    /// The value of kind `tag`; `None` when it is of another kind, or lies nowhere.
    ///
    /// # Safety
    /// Values of kind `tag` are of type `T`.
    #[inline(always)]
    unsafe fn value<T>(self, tag: XLA_FFI_AttrType) -> Option<&'f T> {
        if self.tag != tag {
            return None;
        }
        // SAFETY: invariant 2: as many values as tags.
        let value = unsafe { self.place.read() };
        // SAFETY: invariant 2: a value is of the type that its tag says, or null; the caller's promise.
        unsafe { value.cast::<T>().as_ref() }
    }

    #[inline(always)]
    pub(crate) fn scalar(self) -> Option<RawScalar<'f>> {
        // SAFETY: of the type that the ABI gives a scalar.
        let scalar: &XLA_FFI_Scalar = unsafe { self.value(XLA_FFI_AttrType::SCALAR) }?;
        (!scalar.value.is_null()).then_some(RawScalar { scalar })
    }

    #[inline(always)]
    pub(crate) fn array(self) -> Option<RawArray<'f>> {
        // SAFETY: of the type that the ABI gives an array.
        let array: &XLA_FFI_Array = unsafe { self.value(XLA_FFI_AttrType::ARRAY) }?;
        Some(RawArray { array })
    }

    #[inline(always)]
    pub(crate) fn string(self) -> Option<&'f [u8]> {
        // SAFETY: of the type that the ABI gives a string, a byte span.
        let span: &XLA_FFI_ByteSpan = unsafe { self.value(XLA_FFI_AttrType::STRING) }?;
        // A text that lies nowhere is not an empty one.
        if span.ptr.is_null() && span.len != 0 {
            return None;
        }
        // SAFETY: invariant 3.
        Some(unsafe { bytes(span) })
    }

    #[inline(always)]
    pub(crate) fn dictionary(self) -> Option<RawAttrs<'f>> {
        // SAFETY: of the type that the ABI gives a dictionary.
        let dictionary: &XLA_FFI_Attrs = unsafe { self.value(XLA_FFI_AttrType::DICTIONARY) }?;
        // SAFETY: it lives as long as the frame.
        unsafe { RawAttrs::from_host(dictionary) }
    }
}

/// A scalar attribute.
#[derive(Clone, Copy)]
pub(crate) struct RawScalar<'f> {
    scalar: &'f XLA_FFI_Scalar,
}

impl RawScalar<'_> {
    #[inline(always)]
    pub(crate) fn dtype(self) -> XLA_FFI_DataType {
        self.scalar.dtype
    }

    /// The value if it is of type `T`.
    #[inline(always)]
    pub(crate) fn get<T: Element>(self) -> Option<T> {
        if self.scalar.dtype != T::DTYPE {
            return None;
        }
        // SAFETY: not null (checked when made), of type T by its dtype; hosts do not promise
        // alignment.
        Some(unsafe { self.scalar.value.cast::<T>().read_unaligned() })
    }
}

impl RawScalar<'_> {
    /// The bytes of the value, in memory that is wide enough and aligned for every type.
    pub(crate) fn bits(self) -> u128 {
        let size = self.scalar.dtype.bits().map_or(0, |bits| bits.div_ceil(8));
        let mut bits = 0u128;
        // SAFETY: the value has `size` bytes, by its type, and so has a u128.
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

/// An array attribute.
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

    /// Where the elements lie; may be null or unaligned.
    pub(crate) fn data(self) -> *const c_void {
        self.array.data.cast_const()
    }

    /// The elements if they are of type `T`, wherever they lie.
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
            // SAFETY: `index` is below `size`, the number of elements of type T (ABI).
            let place = unsafe { data.add(index) };
            // SAFETY: as above; hosts do not promise alignment.
            unsafe { place.read_unaligned() }
        };
        Some((0..self.array.size).map(element).collect())
    }

    /// The bytes of the elements, of any type. An array at null is not an empty one.
    pub(crate) fn bytes(self) -> Option<&'f [u8]> {
        let bytes = self.array.dtype.bytes_for(self.array.size)?;
        if bytes == 0 {
            return Some(&[]);
        }
        if self.array.data.is_null() {
            return None;
        }
        // SAFETY: the array has that many bytes, by its type and size, alive for 'f; no one writes attributes.
        Some(unsafe { std::slice::from_raw_parts(self.array.data.cast(), bytes) })
    }

    /// The same in memory that is aligned for every type.
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

    /// The elements if they are of type `T` and aligned for it.
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
        // SAFETY: `size` elements of type T (ABI), aligned, not null, alive for 'f; no one writes
        // attributes.
        Some(unsafe { std::slice::from_raw_parts(data, self.array.size) })
    }
}
