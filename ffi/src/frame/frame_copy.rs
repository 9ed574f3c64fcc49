//! A copy of a call frame that outlives the call. The parameters of asynchronous handlers are
//! decoded from the copy. The operands' data is not copied, because hosts keep it until the call
//! completes.

use std::any::Any;
use std::ffi::c_void;
use std::ptr::NonNull;

use crate::frame::Frame;
use crate::frame::raw_attribute::{RawAttr, RawAttrs};
use crate::frame::raw_buffer::RawBuffer;
use xla_ffi_sys::*;

/// A copied frame. `kept` has all data of the frame, except the operands' data and the context.
pub(crate) struct OwnedFrame {
    // Invariant: points to a boxed frame. The field is not a `Box`, because frames are read through
    // copies of this pointer while the `OwnedFrame` moves.
    raw: NonNull<XLA_FFI_CallFrame>,
    #[expect(dead_code, reason = "the frame points into it")]
    kept: Vec<Box<dyn Any>>,
}

impl Drop for OwnedFrame {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from a box and is freed once.
        drop(unsafe { Box::from_raw(self.raw.as_ptr()) });
    }
}

// SAFETY: the copy is not written after creation, and is not tied to a thread.
unsafe impl Send for OwnedFrame {}

/// Stores the copies of a frame's parts at stable addresses.
#[derive(Default)]
struct Keeper {
    kept: Vec<Box<dyn Any>>,
}

impl Keeper {
    fn keep<T: 'static>(&mut self, mut values: Vec<T>) -> *mut T {
        let start = values.as_mut_ptr();
        self.kept.push(Box::new(values));
        start
    }

    fn one<T: 'static>(&mut self, value: T) -> *mut c_void {
        self.keep(vec![value]).cast()
    }

    fn buffers(&mut self, buffers: Vec<Option<RawBuffer<'_>>>) -> *mut *mut c_void {
        let copies: Vec<*mut c_void> = buffers
            .into_iter()
            .map(|buffer| {
                let Some(buffer) = buffer else {
                    return std::ptr::null_mut();
                };
                // Keep dimensions null if the host omitted them, because the address of an empty
                // list is not null.
                let dims = buffer.raw_dims();
                let dims = if dims.len() as i64 == buffer.rank() {
                    self.keep(dims.to_vec())
                } else {
                    std::ptr::null_mut()
                };
                self.one(XLA_FFI_Buffer {
                    struct_size: XLA_FFI_Buffer::STRUCT_SIZE,
                    extension_start: std::ptr::null_mut(),
                    dtype: buffer.dtype(),
                    data: buffer.data(),
                    rank: buffer.rank(),
                    dims,
                })
            })
            .collect();
        self.keep(copies)
    }

    fn span(&mut self, bytes: &[u8]) -> XLA_FFI_ByteSpan {
        XLA_FFI_ByteSpan {
            ptr: self.keep(bytes.to_vec()).cast_const().cast(),
            len: bytes.len(),
        }
    }

    fn attrs(&mut self, attrs: RawAttrs<'_>) -> XLA_FFI_Attrs {
        let (mut types, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..attrs.len() {
            let (kind, value) = self.value(attrs.value(index));
            let name = self.span(attrs.name(index));
            types.push(kind);
            names.push(self.one(name).cast::<XLA_FFI_ByteSpan>());
            values.push(value);
        }
        XLA_FFI_Attrs {
            struct_size: XLA_FFI_Attrs::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            size: types.len() as i64,
            types: self.keep(types),
            names: self.keep(names),
            attrs: self.keep(values),
        }
    }

    fn value(&mut self, value: RawAttr<'_>) -> (XLA_FFI_AttrType, *mut c_void) {
        if let Some(text) = value.string() {
            let span = self.span(text);
            return (XLA_FFI_AttrType::STRING, self.one(span));
        }
        if let Some(dictionary) = value.dictionary() {
            let attrs = self.attrs(dictionary);
            return (XLA_FFI_AttrType::DICTIONARY, self.one(attrs));
        }
        if let Some(scalar) = value.scalar() {
            // A u128 is large enough and aligned for every scalar.
            let copy = self.one(scalar.bits());
            return (
                XLA_FFI_AttrType::SCALAR,
                self.one(XLA_FFI_Scalar {
                    dtype: scalar.dtype(),
                    value: copy,
                }),
            );
        }
        if let Some(array) = value.array() {
            let data = if array.data().is_null() {
                std::ptr::null_mut()
            } else {
                self.keep(array.aligned_copy()).cast()
            };
            return (
                XLA_FFI_AttrType::ARRAY,
                self.one(XLA_FFI_Array {
                    dtype: array.dtype(),
                    size: array.len(),
                    data,
                }),
            );
        }
        // The attribute's type is unknown. The tag 0 matches no attribute type, so decoding fails.
        (XLA_FFI_AttrType(0), std::ptr::null_mut())
    }
}

impl OwnedFrame {
    pub(crate) fn new(frame: &Frame<'_>) -> Self {
        let mut keeper = Keeper::default();
        let args: Vec<_> = (0..frame.arg_count()).map(|i| frame.arg(i)).collect();
        let rets: Vec<_> = (0..frame.ret_count()).map(|i| frame.ret(i)).collect();
        let arg_type = |buffer: &Option<RawBuffer<'_>>| match buffer {
            Some(_) => XLA_FFI_ArgType::BUFFER,
            None => XLA_FFI_ArgType(0),
        };
        let ret_type = |buffer: &Option<RawBuffer<'_>>| match buffer {
            Some(_) => XLA_FFI_RetType::BUFFER,
            None => XLA_FFI_RetType(0),
        };
        let args = XLA_FFI_Args {
            struct_size: XLA_FFI_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            size: args.len() as i64,
            types: keeper.keep(args.iter().map(arg_type).collect()),
            args: keeper.buffers(args),
        };
        let rets = XLA_FFI_Rets {
            struct_size: XLA_FFI_Rets::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            size: rets.len() as i64,
            types: keeper.keep(rets.iter().map(ret_type).collect()),
            rets: keeper.buffers(rets),
        };
        let attrs = keeper.attrs(frame.attrs());
        let raw = Box::new(XLA_FFI_CallFrame {
            struct_size: XLA_FFI_CallFrame::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            api: frame.host().api(),
            ctx: frame.ctx(),
            stage: XLA_FFI_ExecutionStage(frame.stage()),
            args,
            rets,
            attrs,
            future: std::ptr::null_mut(),
        });
        Self {
            raw: NonNull::from(Box::leak(raw)),
            kept: keeper.kept,
        }
    }

    /// Returns the copy as a frame. The context of the frame is valid only until the call returns.
    pub(crate) fn frame(&self) -> Option<Frame<'_>> {
        // SAFETY: the frame is complete and lives as long as `self`.
        unsafe { Frame::new(self.raw.as_ptr()) }
    }
}
