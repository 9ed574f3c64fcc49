//! Reads call frames. Only this module dereferences a host's pointers to operands and attributes.
//!
//! The `SAFETY` comments assume that hosts pass valid frames. In a valid frame, lists have as many entries as their
//! sizes, and spans and values are valid during the call.

use crate::call::bytes_of;
use crate::{Attributes, Value};
use std::ffi::c_void;
use std::slice;
use xla_ffi_sys::{
    ELEMENT_TYPES, XLA_FFI_ArgType, XLA_FFI_Array, XLA_FFI_AttrType, XLA_FFI_Attrs, XLA_FFI_Buffer,
    XLA_FFI_ByteSpan, XLA_FFI_CallFrame, XLA_FFI_DataType, XLA_FFI_InternalExtension,
    XLA_FFI_InternalExtension_Type, XLA_FFI_Scalar,
};

/// The maximum nesting depth of recorded dictionaries. Each dictionary needs three levels of JSON, and readers accept
/// at most 128 levels.
const DEEPEST: usize = 40;

/// An operand of a call, with its address.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) dtype: u32,
    pub(crate) dims: Vec<i64>,
    data: *const u8,
    /// The size in bytes; `None` if the element type does not determine it.
    pub(crate) size: Option<usize>,
}

// SAFETY: only `bytes` dereferences the address, and its caller guarantees that the address is valid.
unsafe impl Send for Place {}
// SAFETY: only `bytes` dereferences the address, and its caller guarantees that the address is valid.
unsafe impl Sync for Place {}

impl Place {
    /// Returns the operand's bytes; `None` if the host passes no address or no element type.
    ///
    /// # Safety
    /// The call must still own the operand's memory, and no code may write to the memory while the slice exists.
    pub(crate) unsafe fn bytes(&self) -> Option<&[u8]> {
        match self.size? {
            0 => Some(&[]),
            _ if self.data.is_null() => None,
            // SAFETY: a host's buffer has the size of its element type and dimensions. The caller guarantees that the
            // buffer is valid.
            size => Some(unsafe { slice::from_raw_parts(self.data, size) }),
        }
    }

    pub(crate) fn has_address(&self) -> bool {
        self.size == Some(0) || !self.data.is_null()
    }

    /// Returns the address and the size of the operand's memory, for the detection of shared memory; `None` if the
    /// operand has no memory.
    pub(crate) fn memory(&self) -> Option<(*const u8, Option<usize>)> {
        let is_there = !self.data.is_null() && self.size != Some(0);
        is_there.then_some((self.data, self.size))
    }
}

/// Copies the entries of a list in a frame.
fn entries<T: Copy>(list: *const T, size: i64) -> Vec<T> {
    let size = usize::try_from(size).unwrap_or(0);
    if list.is_null() {
        return vec![];
    }
    // SAFETY: a host's list has `size` entries.
    (0..size)
        .map(|index| unsafe { list.wrapping_add(index).read() })
        .collect()
}

/// Returns the arguments or the results in a list; `None` if one of them is not a buffer.
fn places(
    types: *const XLA_FFI_ArgType,
    list: *const *mut c_void,
    size: i64,
) -> Option<Vec<Place>> {
    let types = entries(types, size);
    let operands = entries(list, size);
    if operands.len() as i64 != size {
        return None;
    }
    let place = |(index, operand): (usize, &*mut c_void)| {
        if operand.is_null()
            || types
                .get(index)
                .is_some_and(|kind| *kind != XLA_FFI_ArgType::BUFFER)
        {
            return None;
        }
        // SAFETY: the entry of the list is a buffer.
        let buffer = unsafe { operand.cast::<XLA_FFI_Buffer>().read() };
        let dims = entries(buffer.dims, buffer.rank);
        Some(Place {
            size: bytes_of(buffer.dtype.0, &dims),
            dtype: buffer.dtype.0,
            dims,
            data: buffer.data.cast(),
        })
    };
    operands.iter().enumerate().map(place).collect()
}

/// Returns the arguments and results of a frame; `None` if one of them is not a buffer.
///
/// # Safety
/// `frame` must be a host's call frame.
pub(crate) unsafe fn operands(frame: *const XLA_FFI_CallFrame) -> Option<(Vec<Place>, Vec<Place>)> {
    // SAFETY: the frames of all revisions have this field.
    let args = unsafe { (*frame).args };
    // SAFETY: the frames of all revisions have this field.
    let rets = unsafe { (*frame).rets };
    Some((
        places(args.types, args.args, args.size)?,
        places(rets.types.cast(), rets.rets, rets.size)?,
    ))
}

/// Returns true if the frame is that of a metadata query.
///
/// # Safety
/// `frame` must be a call frame of a host of r1 or later.
pub(crate) unsafe fn asks_for_metadata(frame: *const XLA_FFI_CallFrame) -> bool {
    // SAFETY: the frames of all revisions have this field.
    let mut at: *const XLA_FFI_InternalExtension = unsafe { (*frame).extension_start };
    while !at.is_null() {
        // SAFETY: the chain of extensions belongs to the host and ends with null.
        let link = unsafe { at.read() };
        if link.r#type == XLA_FFI_InternalExtension_Type::Metadata {
            return true;
        }
        at = link.next;
    }
    false
}

/// Returns the attributes of a frame.
///
/// # Safety
/// `frame` must be a host's call frame.
pub(crate) unsafe fn attributes(frame: *const XLA_FFI_CallFrame) -> Attributes {
    // SAFETY: the frames of all revisions have this field.
    let attributes = unsafe { (*frame).attrs };
    dictionary(&attributes, 0)
}

/// Returns the entries of a host's dictionary.
///
/// # Safety
/// `attributes` must be null or a host's dictionary.
pub(crate) unsafe fn options(attributes: *const XLA_FFI_Attrs) -> Attributes {
    if attributes.is_null() {
        return vec![];
    }
    // SAFETY: the caller upholds this function's safety contract.
    dictionary(&unsafe { attributes.read() }, 0)
}

fn dictionary(attributes: &XLA_FFI_Attrs, depth: usize) -> Attributes {
    let types = entries(attributes.types, attributes.size);
    let names = entries(attributes.names, attributes.size);
    let values = entries(attributes.attrs, attributes.size);
    let all = types.into_iter().zip(names).zip(values);
    all.filter(|((_, name), _)| !name.is_null())
        .map(|((kind, name), value)| {
            // SAFETY: the entries of the list point to spans.
            let name = span(unsafe { name.read() });
            let name = String::from_utf8_lossy(name).into_owned();
            (
                name,
                attribute(kind, value, depth).unwrap_or(Value::Unknown(kind.0)),
            )
        })
        .collect()
}

fn attribute(kind: XLA_FFI_AttrType, value: *const c_void, depth: usize) -> Option<Value> {
    if value.is_null() || depth == DEEPEST {
        return None;
    }
    match kind {
        XLA_FFI_AttrType::SCALAR => {
            // SAFETY: `value` points to a scalar, because the attribute's kind is scalar.
            let scalar = unsafe { value.cast::<XLA_FFI_Scalar>().read() };
            Some(Value::Scalar {
                dtype: scalar.dtype.0,
                bytes: elements(scalar.dtype, scalar.value, 1)?.to_vec(),
            })
        }
        XLA_FFI_AttrType::ARRAY => {
            // SAFETY: `value` points to an array, because the attribute's kind is array.
            let array = unsafe { value.cast::<XLA_FFI_Array>().read() };
            Some(Value::Array {
                dtype: array.dtype.0,
                size: array.size,
                bytes: elements(array.dtype, array.data, array.size)?.to_vec(),
            })
        }
        XLA_FFI_AttrType::STRING => {
            // SAFETY: `value` points to a span, because the attribute's kind is string.
            let text = span(unsafe { value.cast::<XLA_FFI_ByteSpan>().read() });
            Some(match std::str::from_utf8(text) {
                Ok(text) => Value::Text(text.to_owned()),
                Err(_) => Value::Bytes(text.to_vec()),
            })
        }
        XLA_FFI_AttrType::DICTIONARY => {
            // SAFETY: `value` points to a dictionary, because the attribute's kind is dictionary.
            let inner = unsafe { value.cast::<XLA_FFI_Attrs>().read() };
            Some(Value::Dictionary(dictionary(&inner, depth + 1)))
        }
        _ => None,
    }
}

/// Returns the bytes of `count` elements of an attribute; `None` for an unknown element type.
fn elements<'a>(dtype: XLA_FFI_DataType, data: *const c_void, count: usize) -> Option<&'a [u8]> {
    let row = ELEMENT_TYPES.iter().find(|row| row.dtype == dtype)?;
    let size = row.bits.checked_mul(count)?.div_ceil(8);
    if size == 0 {
        return Some(&[]);
    }
    if data.is_null() {
        return None;
    }
    // SAFETY: the host's attribute has as many bytes as `count` elements of its type, and is valid during the call.
    Some(unsafe { slice::from_raw_parts(data.cast(), size) })
}

fn span<'a>(span: XLA_FFI_ByteSpan) -> &'a [u8] {
    if span.len == 0 || span.ptr.is_null() {
        return &[];
    }
    // SAFETY: a host's span has `len` bytes, which are valid during the call.
    unsafe { slice::from_raw_parts(span.ptr.cast(), span.len) }
}
