//! Attributes in the layout of the ABI: sorted lists of pointers to memory that exists as long as the frame.

use crate::value::attribute::MAX_DEPTH;
use crate::value::{Attribute, AttributeArray, Attributes, DType, scalar_codec};
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use xla_ffi_sys::{
    Revision, XLA_FFI_Array, XLA_FFI_AttrType, XLA_FFI_Attrs, XLA_FFI_ByteSpan, XLA_FFI_Scalar,
};

/// An attribute dictionary in the layout of the ABI. Its memory neither moves nor changes after it is built.
#[derive(Debug)]
pub(crate) struct Encoded {
    raw: XLA_FFI_Attrs,
    // The following fields own the memory to which `raw` points, directly or indirectly.
    _types: Vec<XLA_FFI_AttrType>,
    _names: Vec<XLA_FFI_ByteSpan>,
    _name_pointers: Vec<*mut XLA_FFI_ByteSpan>,
    _values: Vec<*mut c_void>,
    _scalars: Vec<XLA_FFI_Scalar>,
    _arrays: Vec<XLA_FFI_Array>,
    _strings: Vec<XLA_FFI_ByteSpan>,
    _words: Vec<u128>,
    _text: Vec<u8>,
    _dictionaries: Vec<Arc<Encoded>>,
}

impl Encoded {
    /// Returns the dictionary as [`Attributes`].
    pub(crate) fn to_attributes(&self) -> Attributes {
        // SAFETY: `raw` is a complete dictionary, whose memory exists as long as `self`.
        unsafe { decode(&raw const self.raw) }
    }
}

// SAFETY: the dictionary does not change after it is built, and owns the memory to which its pointers refer.
unsafe impl Send for Encoded {}
// SAFETY: the dictionary does not change after it is built.
unsafe impl Sync for Encoded {}

/// The sizes of a dictionary's lists and buffers.
#[derive(Default)]
struct Sizes {
    scalars: usize,
    arrays: usize,
    strings: usize,
    words: usize,
    text: usize,
    dictionaries: usize,
}

impl Sizes {
    fn needed_for(attributes: &Attributes) -> Self {
        let mut sizes = Self::default();
        for (name, value) in attributes.iter() {
            sizes.text += name.len();
            match value {
                Attribute::Scalar(..) => {
                    sizes.scalars += 1;
                    sizes.words += 1;
                }
                Attribute::Array(array) => {
                    sizes.arrays += 1;
                    sizes.words += array.bytes().len().div_ceil(16);
                }
                Attribute::Str(bytes) => {
                    sizes.strings += 1;
                    sizes.text += bytes.len();
                }
                Attribute::Dict(_) => sizes.dictionaries += 1,
            }
        }
        sizes
    }
}

impl Encoded {
    pub(crate) fn new(attributes: &Attributes, revision: Revision) -> Arc<Self> {
        let count = attributes.len();
        let sizes = Sizes::needed_for(attributes);
        // The capacities are exact, so a push never moves earlier elements.
        let mut types = Vec::with_capacity(count);
        let mut names = Vec::with_capacity(count);
        let mut name_pointers = Vec::with_capacity(count);
        let mut values: Vec<*mut c_void> = Vec::with_capacity(count);
        let mut scalars = Vec::with_capacity(sizes.scalars);
        let mut arrays = Vec::with_capacity(sizes.arrays);
        let mut strings = Vec::with_capacity(sizes.strings);
        let mut words: Vec<u128> = Vec::with_capacity(sizes.words);
        let mut text = Vec::with_capacity(sizes.text);
        let mut dictionaries = Vec::with_capacity(sizes.dictionaries);

        for (name, value) in attributes.iter() {
            names.push(span(&mut text, name.as_bytes()));
            let (kind, value): (_, *mut c_void) = match value {
                Attribute::Scalar(dtype, bits) => {
                    let at = words.as_mut_ptr().wrapping_add(words.len());
                    words.push(*bits);
                    let dtype = dtype.raw_on(revision);
                    let scalar = XLA_FFI_Scalar {
                        dtype,
                        value: at.cast(),
                    };
                    (XLA_FFI_AttrType::SCALAR, push(&mut scalars, scalar))
                }
                Attribute::Array(array) => {
                    let at = words.as_mut_ptr().wrapping_add(words.len());
                    for chunk in array.bytes().chunks(16) {
                        let mut word = [0; 16];
                        word[..chunk.len()].copy_from_slice(chunk);
                        words.push(u128::from_ne_bytes(word));
                    }
                    let data = if array.is_empty() {
                        ptr::null_mut()
                    } else {
                        at.cast()
                    };
                    let array = XLA_FFI_Array {
                        dtype: array.dtype().raw_on(revision),
                        size: array.len(),
                        data,
                    };
                    (XLA_FFI_AttrType::ARRAY, push(&mut arrays, array))
                }
                Attribute::Str(bytes) => {
                    let string = span(&mut text, bytes);
                    (XLA_FFI_AttrType::STRING, push(&mut strings, string))
                }
                Attribute::Dict(nested) => {
                    let nested = Self::new(nested, revision);
                    let raw = nested.raw().cast_mut().cast();
                    dictionaries.push(nested);
                    (XLA_FFI_AttrType::DICTIONARY, raw)
                }
            };
            types.push(kind);
            values.push(value);
        }
        let first: *mut XLA_FFI_ByteSpan = names.as_mut_ptr();
        name_pointers.extend((0..count).map(|index| first.wrapping_add(index)));
        Arc::new(Self {
            raw: XLA_FFI_Attrs {
                struct_size: XLA_FFI_Attrs::STRUCT_SIZE,
                extension_start: ptr::null_mut(),
                size: count as i64,
                types: list(&mut types),
                names: list(&mut name_pointers),
                attrs: list(&mut values),
            },
            _types: types,
            _names: names,
            _name_pointers: name_pointers,
            _values: values,
            _scalars: scalars,
            _arrays: arrays,
            _strings: strings,
            _words: words,
            _text: text,
            _dictionaries: dictionaries,
        })
    }

    /// Returns the dictionary in the layout of the ABI. It is valid as long as `self` exists.
    pub(crate) fn raw(&self) -> *const XLA_FFI_Attrs {
        &raw const self.raw
    }
}

/// Returns a pointer to the first entry of a list, or null for an empty list, as XLA does.
pub(super) fn list<T>(entries: &mut [T]) -> *mut T {
    if entries.is_empty() {
        ptr::null_mut()
    } else {
        entries.as_mut_ptr()
    }
}

fn span(text: &mut Vec<u8>, bytes: &[u8]) -> XLA_FFI_ByteSpan {
    debug_assert!(
        text.capacity() - text.len() >= bytes.len(),
        "the text must not move"
    );
    let ptr = text.as_ptr().wrapping_add(text.len()).cast();
    text.extend_from_slice(bytes);
    XLA_FFI_ByteSpan {
        ptr,
        len: bytes.len(),
    }
}

fn push<T>(list: &mut Vec<T>, value: T) -> *mut c_void {
    debug_assert!(list.capacity() > list.len(), "the list must not move");
    let at = list.as_mut_ptr().wrapping_add(list.len());
    list.push(value);
    at.cast()
}

/// Decodes the attributes of a handler's frame. Dictionaries that are nested deeper than [`MAX_DEPTH`] are omitted.
///
/// # Safety
/// `raw` must be null or point to a complete dictionary of a host of a known revision.
pub(crate) unsafe fn decode(raw: *const XLA_FFI_Attrs) -> Attributes {
    // SAFETY: guaranteed by the caller.
    unsafe { decode_at(raw, 1) }
}

unsafe fn decode_at(raw: *const XLA_FFI_Attrs, depth: usize) -> Attributes {
    let mut attributes = Attributes::new();
    if raw.is_null() {
        return attributes;
    }
    // SAFETY: guaranteed by the caller.
    let raw = unsafe { raw.read() };
    if raw.names.is_null() || raw.types.is_null() || raw.attrs.is_null() {
        return attributes;
    }
    for index in 0..usize::try_from(raw.size).unwrap_or(0) {
        // SAFETY: the list of names has `size` entries.
        let name = unsafe { raw.names.wrapping_add(index).read() };
        if name.is_null() {
            continue;
        }
        // SAFETY: the entries of the list point to spans.
        let name = unsafe { name.read() };
        // SAFETY: hosts pass valid spans.
        let name = unsafe { span_bytes(name) };
        // SAFETY: the list of types has `size` entries.
        let kind = unsafe { raw.types.wrapping_add(index).read() };
        // SAFETY: the list of values has `size` entries.
        let value = unsafe { raw.attrs.wrapping_add(index).read() };
        // SAFETY: `kind` is the type of the object to which `value` points.
        if let Some(value) = unsafe { decode_value(kind, value, depth) } {
            attributes = attributes.with(String::from_utf8_lossy(name).into_owned(), value);
        }
    }
    attributes
}

unsafe fn span_bytes<'a>(span: XLA_FFI_ByteSpan) -> &'a [u8] {
    if span.len == 0 || span.ptr.is_null() {
        return &[];
    }
    // SAFETY: the span is not empty, so it points to `len` bytes.
    unsafe { std::slice::from_raw_parts(span.ptr.cast(), span.len) }
}

unsafe fn decode_value(
    kind: XLA_FFI_AttrType,
    value: *const c_void,
    depth: usize,
) -> Option<Attribute> {
    if value.is_null() {
        return None;
    }
    match kind {
        XLA_FFI_AttrType::SCALAR => {
            // SAFETY: `value` points to a scalar, because the kind is SCALAR.
            let scalar = unsafe { value.cast::<XLA_FFI_Scalar>().read() };
            let dtype = DType::from_raw(scalar.dtype)?;
            let size = dtype.bits().div_ceil(8);
            if scalar.value.is_null() {
                return None;
            }
            // SAFETY: the value of a scalar has as many bytes as its element type.
            let bytes = unsafe { std::slice::from_raw_parts(scalar.value.cast::<u8>(), size) };
            Some(Attribute::Scalar(
                dtype,
                scalar_codec::load(bytes, dtype, 0),
            ))
        }
        XLA_FFI_AttrType::ARRAY => {
            // SAFETY: `value` points to an array, because the kind is ARRAY.
            let array = unsafe { value.cast::<XLA_FFI_Array>().read() };
            let dtype = DType::from_raw(array.dtype)?;
            let size = dtype.bytes_for(array.size)?;
            if size > 0 && array.data.is_null() {
                return None;
            }
            let bytes: &[u8] = if size == 0 {
                &[]
            } else {
                // SAFETY: the array has `size` bytes of data.
                unsafe { std::slice::from_raw_parts(array.data.cast::<u8>(), size) }
            };
            let array = AttributeArray::new(dtype, array.size, bytes.to_vec()).ok()?;
            Some(Attribute::Array(array))
        }
        XLA_FFI_AttrType::STRING => {
            // SAFETY: `value` points to a span, because the kind is STRING.
            let span = unsafe { value.cast::<XLA_FFI_ByteSpan>().read() };
            // SAFETY: hosts pass valid spans.
            Some(Attribute::Str(unsafe { span_bytes(span) }.to_vec()))
        }
        XLA_FFI_AttrType::DICTIONARY if depth < MAX_DEPTH => {
            // SAFETY: `value` points to a dictionary, because the kind is DICTIONARY.
            Some(Attribute::Dict(unsafe {
                decode_at(value.cast(), depth + 1)
            }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_reads_back() {
        let nested = Attributes::new()
            .with("x", 1_i8)
            .with("empty", Attributes::new());
        let attributes = Attributes::new()
            .with("b", 1.5_f32)
            .with("a", Attribute::array(&[1_i64, 2, 3]))
            .with("s", "text")
            .with("", "")
            .with("none", Attribute::array::<f32>(&[]))
            .with("d", nested);
        let encoded = Encoded::new(&attributes, Revision::R10);
        // SAFETY: `encoded` is a complete dictionary.
        assert_eq!(unsafe { decode(encoded.raw()) }, attributes);
        // SAFETY: `decode` accepts null.
        assert_eq!(unsafe { decode(ptr::null()) }, Attributes::new());
    }
}
