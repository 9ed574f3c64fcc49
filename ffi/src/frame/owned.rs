//! A copy of a call frame that outlives the call: asynchronous handlers are decoded from it. The
//! operands' data is not copied, since hosts keep it until the call completes.

use std::any::Any;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::attribute::{AttrValue, Attribute};
use crate::frame::Frame;
use crate::frame::raw_attribute::RawAttrs;
use crate::frame::raw_buffer::RawBuffer;
use xla_ffi_sys::*;

/// The copy. Everything that its call frame points to, data and context excepted, lies in `kept`.
pub(crate) struct OwnedFrame {
    // Invariant: a boxed frame. Not a `Box`, since frames are read through copies of this pointer
    // while this value moves.
    raw: NonNull<XLA_FFI_CallFrame>,
    #[expect(dead_code, reason = "the frame points into it")]
    kept: Vec<Box<dyn Any>>,
}

impl Drop for OwnedFrame {
    fn drop(&mut self) {
        // SAFETY: made from a box, freed once.
        drop(unsafe { Box::from_raw(self.raw.as_ptr()) });
    }
}

// SAFETY: nothing in it is written after it is made, and it is not tied to a thread.
unsafe impl Send for OwnedFrame {}

/// Collects copies and hands out their addresses, which stay.
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
                // Dimensions that the host left out stay out: an empty list's address is not null.
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
            let (kind, value) = self.value(AttrValue(attrs.value(index)));
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

    fn value(&mut self, value: AttrValue<'_>) -> (XLA_FFI_AttrType, *mut c_void) {
        if let Some(text) = value.0.string() {
            let span = self.span(text);
            return (XLA_FFI_AttrType::STRING, self.one(span));
        }
        if let Some(dictionary) = value.0.dictionary() {
            let attrs = self.attrs(dictionary);
            return (XLA_FFI_AttrType::DICTIONARY, self.one(attrs));
        }
        if let Some(scalar) = value.0.scalar() {
            // Wide enough and aligned for every scalar.
            let copy = self.one(scalar.bits());
            return (
                XLA_FFI_AttrType::SCALAR,
                self.one(XLA_FFI_Scalar {
                    dtype: scalar.dtype(),
                    value: copy,
                }),
            );
        }
        if let Some(array) = value.0.array() {
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
        // A kind that is not known: no decoding accepts it, by its tag.
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

    /// The copy as a frame. Its context is that of the call: it may be used until the call returns.
    pub(crate) fn frame(&self) -> Option<Frame<'_>> {
        // SAFETY: a whole frame, which lives as long as `self`.
        unsafe { Frame::new(self.raw.as_ptr()) }
    }
}

/// A parameter that an asynchronous handler may keep after the call has returned: it reaches
/// nothing but operand data, copies, and objects that live until the call completes. `async fn` handlers ask it
/// of their parameters. Types that derive [`Bind`](macro@crate::Bind) have it if what they are made from has it.
///
/// ```
/// use xla_ffi::{Bind, prelude::*};
///
/// #[derive(Bind)]
/// #[bind(from = Buffer<'f, f32, 1>)]
/// struct Weights<'f>(Buffer<'f, f32, 1>);
///
/// impl<'f> From<Buffer<'f, f32, 1>> for Weights<'f> {
///     fn from(buffer: Buffer<'f, f32, 1>) -> Self {
///         Self(buffer)
///     }
/// }
///
/// #[xla_ffi::handler]
/// async fn total(weights: Weights, mut y: Out<f32, 0>) -> Result<()> {
///     std::future::ready(()).await;
///     y.fill(weights.0.iter().sum());
///     Ok(())
/// }
///
/// # use xla_ffi::internal::{self, DType, Shape, Tensor};
/// let call = internal::call::<total>("{}")?
///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
///     .ret(Shape::new(DType::F32, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![3.0_f32]));
/// # Ok::<(), internal::Error>(())
/// ```
///
/// # Safety
/// No method of the type uses the call's context.
#[diagnostic::on_unimplemented(
    message = "`{Self}` ends with the call, but an async handler goes on after it",
    note = "operands, attributes, `RunId`, `DeviceOrdinal`, `UserData` and state may be kept; thread \
            pool, stream, scratch memory, options and extensions may not: use them in a handler that \
            is not async"
)]
pub unsafe trait OutlivesCall {}

macro_rules! outlives {
    ($({$($generics:tt)*} $ty:ty;)*) => {
        $(
            // SAFETY: holds operand data, copies, or an object that the host keeps.
            unsafe impl<$($generics)*> OutlivesCall for $ty {}
        )*
    };
}

outlives! {
    {T, const RANK: usize} crate::Buffer<'_, T, RANK>;
    {T, const RANK: usize} crate::Out<'_, T, RANK>;
    {T, const RANK: usize} crate::InOut<'_, T, RANK>;
    {P, const RANK: usize} crate::Packed<'_, P, RANK>;
    {P, const RANK: usize} crate::PackedOut<'_, P, RANK>;
    {} crate::AnyBuffer<'_>;
    {} crate::AnyOut<'_>;
    {} crate::RemainingArgs<'_>;
    {} crate::RemainingRets<'_>;
    {S, const RANK: usize} crate::OneOf<'_, S, RANK>;
    {S, const RANK: usize} crate::OneOfOut<'_, S, RANK>;
    {T, const RANK: usize} crate::DeviceBuffer<'_, T, RANK>;
    {T, const RANK: usize} crate::DeviceOut<'_, T, RANK>;
    {} crate::AnyDeviceBuffer<'_>;
    {} crate::AnyDeviceOut<'_>;
    {} crate::Token<'_>;
    {} crate::TokenOut<'_>;
    {} crate::RunId;
    {} crate::DeviceOrdinal;
    {} crate::Cancellation;
    {T} crate::UserData<'_, T>;
    {T} crate::StateRef<'_, T>;
    {T} crate::Prepared<'_, T>;
    {T} crate::Initialized<'_, T>;
    {T: OutlivesCall} Option<T>;
}

/// For `#[derive(Bind)]`: stands for what a type is made from. The lifetime lets the bound wait until it is asked for.
#[doc(hidden)]
#[derive(Debug)]
pub struct Made<'f, T>(PhantomData<(&'f (), T)>);

// SAFETY: as that from which it is made.
unsafe impl<T: OutlivesCall> OutlivesCall for Made<'_, T> {}

// SAFETY: attributes are copied with the frame.
unsafe impl<'f, A: Attribute<'f>> OutlivesCall for A {}

/// For the macros: does not compile for parameters that end with the call.
#[doc(hidden)]
#[inline(always)]
pub fn outlives_call<T: OutlivesCall>(_: &T) {}
