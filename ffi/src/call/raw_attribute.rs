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

use std::ffi::c_void;
use std::marker::PhantomData;
use xla_ffi_sys::{
    XLA_FFI_ArgType, XLA_FFI_Array, XLA_FFI_AttrType, XLA_FFI_Attrs, XLA_FFI_Buffer,
    XLA_FFI_ByteSpan, XLA_FFI_CallFrame, XLA_FFI_DataType, XLA_FFI_InvokeContext, XLA_FFI_RetType,
    XLA_FFI_Scalar,
};

use crate::element::Element;
use crate::host::Host;
use crate::pending::Pending;

/// Bytes of a call frame that every revision has.
pub(crate) const FRAME_SIZE: usize = 168;

/// One call, as a handler sees it. Users meet it only when they write their own [`Bind`]
/// implementation.
///
/// ```
/// use xla_ffi::{At, Bind, Frame, Param, Problems, Revision, prelude::*};
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
///     y.copy_from(&[summary.0 as i64, summary.1 as i64, summary.2.into()])?;
///     Ok(())
/// }
///
/// # use xla_ffi::internal::{self, DType, Shape, Tensor};
/// let call = internal::call::<summary>("{}")?
///     .arg(Tensor::from_slice([1], &[1.0_f32])?)
///     .ret(Shape::new(DType::S64, [3])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![1_i64, 1, 5]));
/// # Ok::<(), internal::Error>(())
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
        if args.struct_size < 40 || rets.struct_size < 40 || attrs.struct_size < 48 {
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

    #[inline(always)]
    pub(crate) fn arg(&self, index: usize) -> Option<RawBuffer<'f>> {
        self.args().get(index, XLA_FFI_ArgType::BUFFER)
    }

    #[inline(always)]
    pub(crate) fn ret(&self, index: usize) -> Option<RawBuffer<'f>> {
        self.rets().get(index, XLA_FFI_RetType::BUFFER)
    }

    /// The attributes.
    #[inline(always)]
    pub(crate) fn attrs(&self) -> RawAttrs<'f> {
        RawAttrs {
            // SAFETY: the list lies within FRAME_SIZE.
            raw: unsafe { &raw const (*self.raw).attrs },
            _frame: PhantomData,
        }
    }
}

/// The value at `index` of a list.
///
/// # Safety
/// The list has more than `index` values.
#[inline(always)]
unsafe fn element<T: Copy>(list: *const T, index: usize) -> T {
    // SAFETY: the caller's promise.
    let place = unsafe { list.add(index) };
    // SAFETY: as above.
    unsafe { place.read() }
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

/// A buffer of the frame whose `struct_size` has been checked.
#[derive(Clone, Copy)]
pub(crate) struct RawBuffer<'f> {
    raw: &'f XLA_FFI_Buffer,
}

/// A typed view of a buffer that has passed every check: `data` is aligned and not null, and names
/// `len` elements, the product of `dims`.
pub(crate) struct Typed<'f, T> {
    pub(crate) data: *mut T,
    pub(crate) dims: &'f [usize],
    pub(crate) len: usize,
}

impl<'f> RawBuffer<'f> {
    /// # Safety
    /// `raw` is null or points to a buffer that lives as long as `'f`.
    #[inline(always)]
    pub(crate) unsafe fn new(raw: *const XLA_FFI_Buffer) -> Option<Self> {
        // SAFETY: the caller's promise; the struct has the same 48 bytes in every revision.
        let raw = unsafe { raw.as_ref()? };
        (raw.struct_size >= 48).then_some(Self { raw })
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
        let dims = self.raw_dims();
        if dims.len() as i64 != self.raw.rank {
            return None;
        }
        let negative = dims.iter().fold(0, |signs, dim| signs | dim) < 0;
        let product = dims
            .iter()
            .try_fold(1usize, |product, &dim| product.checked_mul(dim as usize));
        let len = match product {
            Some(product) if !negative => product,
            _ if empty(dims) => 0,
            _ => return None,
        };
        // SAFETY: same size and alignment on 64-bit hosts (checked in lib.rs), no value negative.
        let dims = unsafe { std::slice::from_raw_parts(dims.as_ptr().cast::<usize>(), dims.len()) };
        Some((dims, len))
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
        if let Some(rank) = rank
            && self.raw.rank != rank as i64
        {
            return None;
        }
        let (dims, len) = self.shape()?;
        if len.checked_mul(size)? > isize::MAX as usize {
            return None;
        }
        let mut data = self.raw.data.cast::<u8>();
        if !usable(data, align) {
            if len != 0 {
                return None;
            }
            data = std::ptr::without_provenance_mut(align);
        }
        Some(Typed { data, dims, len })
    }
}

/// Whether `data` is not null and a multiple of `align`, a power of two.
#[inline(always)]
fn usable(data: *mut u8, align: usize) -> bool {
    // One comparison for both: low bits that are set become high ones, and null wraps around.
    let bits = align.trailing_zeros();
    (data as usize).rotate_right(bits).wrapping_sub(1) < usize::MAX >> bits
}

/// Whether a dimension is zero and none is negative.
// Inline for the same reason as `RawAttrs::position`.
#[cold]
#[inline]
fn empty(dims: &[i64]) -> bool {
    dims.contains(&0) && dims.iter().all(|&dim| dim >= 0)
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
    value: *const std::ffi::c_void,
    _frame: PhantomData<&'f ()>,
}

impl<'f> RawAttrs<'f> {
    /// A dictionary that the host handed out beside the frame; `None` when it is too short.
    ///
    /// # Safety
    /// `raw` is null or points to attributes that live as long as `'f`.
    pub(crate) unsafe fn from_host(raw: *const XLA_FFI_Attrs) -> Option<Self> {
        // SAFETY: the caller's promise.
        let attrs = unsafe { raw.as_ref()? };
        (attrs.struct_size >= 48).then_some(Self {
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
        let value = unsafe { element(attrs, index) };
        RawAttr {
            tag,
            value,
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
        let mut index = 0;
        while index < self.len() && !self.is_named(index, name) {
            index += 1;
        }
        index
    }
}

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
    #[inline(always)]
    pub(crate) fn scalar(self) -> Option<RawScalar<'f>> {
        if self.tag != XLA_FFI_AttrType::SCALAR || self.value.is_null() {
            return None;
        }
        // SAFETY: invariant 2: the tag says that it is a scalar.
        let scalar = unsafe { &*self.value.cast::<XLA_FFI_Scalar>() };
        (!scalar.value.is_null()).then_some(RawScalar { scalar })
    }

    #[inline(always)]
    pub(crate) fn array(self) -> Option<RawArray<'f>> {
        if self.tag != XLA_FFI_AttrType::ARRAY || self.value.is_null() {
            return None;
        }
        // SAFETY: invariant 2: the tag says that it is an array.
        let array = unsafe { &*self.value.cast::<XLA_FFI_Array>() };
        Some(RawArray { array })
    }

    #[inline(always)]
    pub(crate) fn string(self) -> Option<&'f [u8]> {
        if self.tag != XLA_FFI_AttrType::STRING || self.value.is_null() {
            return None;
        }
        // SAFETY: invariant 2: the tag says that it is a byte span.
        let span = unsafe { &*self.value.cast::<XLA_FFI_ByteSpan>() };
        // SAFETY: invariant 3.
        Some(unsafe { bytes(span) })
    }

    #[inline(always)]
    pub(crate) fn dictionary(self) -> Option<RawAttrs<'f>> {
        if self.tag != XLA_FFI_AttrType::DICTIONARY {
            return None;
        }
        // SAFETY: invariant 2: the tag says that it is a dictionary.
        unsafe { RawAttrs::from_host(self.value.cast()) }
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
        let size = crate::element::bit_width(self.scalar.dtype).map_or(0, |bits| bits.div_ceil(8));
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

    /// The bytes of the elements, in memory that is aligned for every type.
    pub(crate) fn aligned_copy(self) -> Vec<u128> {
        let bytes = crate::buffer::byte_size(self.array.dtype, self.array.size).unwrap_or(0);
        let mut copy = vec![0u128; bytes.div_ceil(size_of::<u128>())];
        if !self.array.data.is_null() {
            // SAFETY: the array has `bytes` bytes, by its type and size, and the copy at least that.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.array.data.cast::<u8>(),
                    copy.as_mut_ptr().cast::<u8>(),
                    bytes,
                );
            }
        }
        copy
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
