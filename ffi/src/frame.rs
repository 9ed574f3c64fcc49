//! The call frame, read safely: the one home of raw access to it.
//!
//! Invariants, established by [`Frame::new`] and relied on by every read:
//!
//! 1. The frame and its three operand lists are at least as long as every revision makes them.
//! 2. Each list has `size` entries (0 when `size` is not positive), and each entry that is tagged
//!    with a known type points to an object of that type.
//! 3. All of it lives at least as long as `'f`.
//!
//! A host that breaks 2 or 3 breaks the ABI itself; nothing here can tell.

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

/// Bytes of a call frame that every revision has.
pub(crate) const FRAME_SIZE: usize = XLA_FFI_CallFrame::STRUCT_SIZE;

/// One call, as a handler sees it. Users meet it only when they write their own [`Bind`]
/// implementation.
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
    // A pointer: what is read from the host's frame need not be copied first.
    raw: *const XLA_FFI_CallFrame,
    pending: Option<&'f Pending>,
    _frame: PhantomData<&'f XLA_FFI_CallFrame>,
}

impl<'f> Frame<'f> {
    /// Reads the heads of the lists; `None` when a struct is shorter than the ABI's.
    ///
    /// # Safety
    /// `raw` points to the call frame of the current call, which lives as long as `'f`.
    #[inline(always)]
    pub(crate) unsafe fn new(raw: *const XLA_FFI_CallFrame) -> Option<Self> {
        // SAFETY: the caller's frame; `struct_size` is its first field in all revisions.
        let size = unsafe { (*raw).struct_size };
        if size < FRAME_SIZE {
            return None;
        }
        // SAFETY: the frame has FRAME_SIZE bytes, which hold the three lists.
        let args = unsafe { &(*raw).args };
        // SAFETY: as above.
        let rets = unsafe { &(*raw).rets };
        // SAFETY: as above.
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

    /// The same frame of a call that may stay pending.
    #[inline(always)]
    pub(crate) fn with_pending(mut self, pending: &'f Pending) -> Self {
        self.pending = Some(pending);
        self
    }

    /// Where a promise leaves word that the call is pending; `None` in frames that were copied.
    #[inline(always)]
    pub(crate) fn pending(&self) -> Option<&'f Pending> {
        self.pending
    }

    #[inline(always)]
    fn args(&self) -> Operands<'f, XLA_FFI_ArgType> {
        // SAFETY: the list lies within FRAME_SIZE.
        let args = unsafe { &(*self.raw).args };
        Operands::new(args.size, args.types, args.args)
    }

    #[inline(always)]
    fn rets(&self) -> Operands<'f, XLA_FFI_RetType> {
        // SAFETY: the list lies within FRAME_SIZE.
        let rets = unsafe { &(*self.raw).rets };
        Operands::new(rets.size, rets.types, rets.rets)
    }

    /// The frame itself.
    #[cfg(feature = "internal")]
    pub(crate) fn raw(&self) -> *const XLA_FFI_CallFrame {
        self.raw
    }

    /// The host.
    #[must_use]
    #[inline(always)]
    pub fn host(&self) -> Host {
        // SAFETY: the field lies within FRAME_SIZE.
        let api = unsafe { (*self.raw).api };
        // SAFETY: a frame names its host's table, which lives as long as the host.
        unsafe { Host::new(api) }
    }

    #[inline(always)]
    pub(crate) fn ctx(&self) -> *mut XLA_FFI_InvokeContext {
        // SAFETY: the field lies within FRAME_SIZE.
        unsafe { (*self.raw).ctx }
    }

    /// The number of the stage.
    #[must_use]
    #[inline(always)]
    pub fn stage(&self) -> u32 {
        // SAFETY: the field lies within FRAME_SIZE.
        unsafe { (*self.raw).stage.0 }
    }

    /// Number of arguments.
    #[must_use]
    #[inline(always)]
    pub fn arg_count(&self) -> usize {
        self.args().len
    }

    /// Number of results.
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

    /// Whether an operand starts at an address.
    #[inline]
    pub(crate) fn has_operand_at(&self, data: *const std::ffi::c_void) -> bool {
        let starts = |buffer: RawBuffer<'_>| std::ptr::eq(buffer.data(), data);
        (0..self.ret_count()).any(|index| self.ret(index).is_some_and(starts))
            || (0..self.arg_count()).any(|index| self.arg(index).is_some_and(starts))
    }

    /// The attributes.
    #[inline(always)]
    pub(crate) fn attrs(&self) -> RawAttrs<'f> {
        // SAFETY: the list lies within FRAME_SIZE.
        let raw = unsafe { &raw const (*self.raw).attrs };
        // SAFETY: its length was checked when the frame was made; invariant 3.
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
        // SAFETY: invariant 2, `index` is in range.
        let tag = unsafe { element(self.types, index) };
        if tag != buffer {
            return None;
        }
        // SAFETY: invariant 2, `index` is in range.
        let value = unsafe { element(self.values, index) };
        // SAFETY: invariant 2: the tag says that it is a buffer.
        unsafe { RawBuffer::new(value.cast()) }
    }
}
