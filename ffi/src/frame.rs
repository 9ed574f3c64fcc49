//! Safe access to the call frame. All raw access to the frame is in this module.
//!
//! Invariants, established by [`Frame::new`] and relied on by every read:
//!
//! 1. The frame and its three operand lists are at least as long as their shortest version in any
//!    revision.
//! 2. Each list has `size` entries (0 if `size` is not positive). Each entry that is tagged with a known type points to
//!    an object of that type.
//! 3. The frame, its lists and their objects live at least as long as `'f`.
//!
//! A host that violates 2 or 3 violates the ABI, which this module cannot detect.

#[cfg_attr(loom, expect(dead_code, reason = "models have loom's threads"))]
pub(crate) mod call_handle;
pub(crate) mod element;
pub(crate) mod frame_copy;
pub(crate) mod host;
pub(crate) mod host_type;
#[cfg(all(test, loom))]
pub(crate) mod loom_host;
pub(crate) mod pending;
pub(crate) mod raw_attribute;
pub(crate) mod raw_buffer;
#[cfg(debug_assertions)]
pub(crate) mod result_ledger;

use std::marker::PhantomData;

use crate::frame::host::Host;
use crate::frame::pending::Pending;
use crate::frame::raw_attribute::{RawAttrs, element};
use crate::frame::raw_buffer::RawBuffer;
use xla_ffi_sys::{
    XLA_FFI_ArgType, XLA_FFI_Args, XLA_FFI_Attrs, XLA_FFI_CallFrame, XLA_FFI_InvokeContext,
    XLA_FFI_RetType, XLA_FFI_Rets,
};

/// The size in bytes of the part of a call frame that is the same in every revision.
pub(crate) const FRAME_SIZE: usize = XLA_FFI_CallFrame::STRUCT_SIZE;

/// One call, as the handler receives it. Only hand-written implementations of [`Bind`] need this
/// type.
///
/// ```
/// use xla_ffi::{Bind, Revision, prelude::*, bind::{At, Frame, Param, Problems}};
///
/// /// The numbers of arguments and results, and the host's version.
/// struct Summary(usize, usize, i32);
///
/// // SAFETY: it takes no operand.
/// unsafe impl<'f> Bind<'f> for Summary {
///     const PARAM: Param = Param::context("summary", Revision::R0);
///
///     fn bind(frame: &Frame<'f>, _: &At) -> Option<Self> {
///         assert_eq!(frame.stage(), 3); // execute
///         Some(Self(frame.arg_count(), frame.ret_count(), frame.host().version().1))
///     }
///
///     fn explain(_: &Frame<'f>, _: &At, _: &mut Problems<'_>) {}
/// }
///
/// #[xla_ffi::handler]
/// fn summary(_x: Buffer<f32>, summary: Summary, mut y: Out<i64, 1>) -> Result<()> {
///     y.copy_from(&[summary.0 as i64, summary.1 as i64, summary.2.into()])
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<summary>("{}")?
///     .arg(Tensor::from_slice([1], &[1.0_f32])?)
///     .ret(Shape::new(DType::S64, [3])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![1_i64, 1, 5]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// [`Bind`]: crate::Bind
#[derive(Clone, Copy)]
pub struct Frame<'f> {
    // A pointer avoids copying the host's frame.
    raw: *const XLA_FFI_CallFrame,
    pending: Option<&'f Pending>,
    _frame: PhantomData<&'f XLA_FFI_CallFrame>,
}

impl<'f> Frame<'f> {
    /// Reads the heads of the frame's lists. Returns `None` if the frame or a list is too short.
    ///
    /// # Safety
    /// `raw` points to the call frame of the current call, which lives as long as `'f`.
    #[inline(always)]
    pub(crate) unsafe fn new(raw: *const XLA_FFI_CallFrame) -> Option<Self> {
        // SAFETY: the caller guarantees a valid frame, and `struct_size` is the first field in all revisions.
        let size = unsafe { (*raw).struct_size };
        if size < FRAME_SIZE {
            return None;
        }
        // SAFETY: the frame has at least FRAME_SIZE bytes, which include the three lists.
        let args = unsafe { &(*raw).args };
        // SAFETY: the frame has at least FRAME_SIZE bytes, which include the three lists.
        let rets = unsafe { &(*raw).rets };
        // SAFETY: the frame has at least FRAME_SIZE bytes, which include the three lists.
        let attrs = unsafe { &(*raw).attrs };
        if args.struct_size < XLA_FFI_Args::STRUCT_SIZE
            || rets.struct_size < XLA_FFI_Rets::STRUCT_SIZE
            || attrs.struct_size < XLA_FFI_Attrs::STRUCT_SIZE
        {
            return None;
        }
        Some(Self {
            raw,
            pending: None,
            _frame: PhantomData,
        })
    }

    /// Returns the frame with the place where a promise records that the call is pending.
    #[inline(always)]
    pub(crate) fn with_pending(mut self, pending: &'f Pending) -> Self {
        self.pending = Some(pending);
        self
    }

    /// Returns the place where a promise records that the call is pending, or `None` for copied
    /// frames.
    #[inline(always)]
    pub(crate) fn pending(&self) -> Option<&'f Pending> {
        self.pending
    }

    #[inline(always)]
    fn args(&self) -> Operands<'f, XLA_FFI_ArgType> {
        // SAFETY: the list is within the first FRAME_SIZE bytes, which every call frame has.
        let args = unsafe { &(*self.raw).args };
        Operands::new(args.size, args.types, args.args)
    }

    #[inline(always)]
    fn rets(&self) -> Operands<'f, XLA_FFI_RetType> {
        // SAFETY: the list is within the first FRAME_SIZE bytes, which every call frame has.
        let rets = unsafe { &(*self.raw).rets };
        Operands::new(rets.size, rets.types, rets.rets)
    }

    /// Returns the address of the host's frame.
    #[cfg(feature = "internal")]
    pub(crate) fn raw(&self) -> *const XLA_FFI_CallFrame {
        self.raw
    }

    /// Returns the host of the call.
    #[must_use]
    #[inline(always)]
    pub fn host(&self) -> Host {
        // SAFETY: the field is within the first FRAME_SIZE bytes, which every call frame has.
        let api = unsafe { (*self.raw).api };
        // SAFETY: a frame points to its host's table, which lives as long as the host.
        unsafe { Host::new(api) }
    }

    #[inline(always)]
    pub(crate) fn ctx(&self) -> *mut XLA_FFI_InvokeContext {
        // SAFETY: the field is within the first FRAME_SIZE bytes, which every call frame has.
        unsafe { (*self.raw).ctx }
    }

    /// Returns the number of the stage in the ABI.
    #[must_use]
    #[inline(always)]
    pub fn stage(&self) -> u32 {
        // SAFETY: the field is within the first FRAME_SIZE bytes, which every call frame has.
        unsafe { (*self.raw).stage.0 }
    }

    /// Returns the number of arguments.
    #[must_use]
    #[inline(always)]
    pub fn arg_count(&self) -> usize {
        self.args().len
    }

    /// Returns the number of results.
    #[must_use]
    #[inline(always)]
    pub fn ret_count(&self) -> usize {
        self.rets().len
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn arg(&self, index: usize) -> Option<RawBuffer<'f>> {
        self.args().get(index, XLA_FFI_ArgType::BUFFER)
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn ret(&self, index: usize) -> Option<RawBuffer<'f>> {
        self.rets().get(index, XLA_FFI_RetType::BUFFER)
    }

    /// Returns true if an operand starts at the address `data`.
    #[inline]
    pub(crate) fn has_operand_at(&self, data: *const std::ffi::c_void) -> bool {
        let starts = |buffer: RawBuffer<'_>| std::ptr::eq(buffer.data(), data);
        (0..self.ret_count()).any(|index| self.ret(index).is_some_and(starts))
            || (0..self.arg_count()).any(|index| self.arg(index).is_some_and(starts))
    }

    /// Returns the attributes of the call.
    #[inline(always)]
    pub(crate) fn attrs(&self) -> RawAttrs<'f> {
        // SAFETY: the list is within the first FRAME_SIZE bytes, which every call frame has.
        let raw = unsafe { &raw const (*self.raw).attrs };
        // SAFETY: `Frame::new` checked the list's length, and the list lives for 'f (invariant 3).
        unsafe { RawAttrs::of_frame(raw) }
    }
}

/// A list of arguments or results.
#[derive(Clone, Copy)]
struct Operands<'f, Tag> {
    len: usize,
    types: *const Tag,
    values: *const *mut std::ffi::c_void,
    _frame: PhantomData<&'f ()>,
}

impl<'f, Tag: Copy + PartialEq> Operands<'f, Tag> {
    #[inline(always)]
    fn new(size: i64, types: *const Tag, values: *const *mut std::ffi::c_void) -> Self {
        Self {
            len: usize::try_from(size).unwrap_or(0),
            types,
            values,
            _frame: PhantomData,
        }
    }

    #[inline(always)]
    fn get(&self, index: usize, buffer: Tag) -> Option<RawBuffer<'f>> {
        if index >= self.len {
            return None;
        }
        // SAFETY: `index` is less than `size`, and the list has `size` entries (invariant 2).
        let tag = unsafe { element(self.types, index) };
        if tag != buffer {
            return None;
        }
        // SAFETY: `index` is less than `size`, and the list has `size` entries (invariant 2).
        let value = unsafe { element(self.values, index) };
        // SAFETY: the tag means that the entry is a buffer (invariant 2).
        unsafe { RawBuffer::new(value.cast()) }
    }
}
