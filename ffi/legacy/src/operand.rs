//! The operands and opaque bytes of an adapted call. Operands have any type and are on the host or on a
//! device.

use std::ffi::c_void;

use xla_ffi::__private::frame::RawBuffer;
use xla_ffi::{
    Attribute, Element, Error, Result,
    bind::{AttrType, AttrValue, Frame},
};
use xla_ffi_sys::*;

/// An operand: its type, dimensions and address.
///
/// ```
/// use xla_ffi::DataType;
/// use xla_ffi_legacy::Operand;
///
/// let mut data = [0.0_f32; 6];
/// let x = Operand {
///     dtype: DataType::F32,
///     dims: &[2, 3],
///     len: 6,
///     data: data.as_mut_ptr().cast(),
/// };
/// assert_eq!(x.byte_size(), Some(24));
/// assert!(x.expect("x", DataType::F32, 6).is_ok());
/// let error = x.expect("x", DataType::F64, 6).unwrap_err();
/// assert_eq!(error.message(), "`x`: expected 6 elements of F64, got 6 of F32");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Operand<'f> {
    /// The type of the operand's elements.
    pub dtype: XLA_FFI_DataType,
    /// The number of elements along each dimension of the operand.
    pub dims: &'f [usize],
    /// The number of the operand's elements.
    pub len: usize,
    /// The address of the operand's elements, in host or device memory.
    pub data: *mut c_void,
}

impl Operand<'_> {
    /// Returns the size of all elements in bytes. Returns `None` if the size of the type is
    /// unknown.
    #[must_use]
    pub fn byte_size(&self) -> Option<usize> {
        self.dtype.bytes_for(self.len)
    }

    /// Checks the type and the number of elements of the operand.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the expected and the actual type and number of elements.
    pub fn expect(&self, name: &str, dtype: XLA_FFI_DataType, len: usize) -> Result<()> {
        if self.dtype == dtype && self.len == len {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "`{name}`: expected {len} elements of {}, got {} of {}",
            xla_ffi::__private::frame::name(dtype),
            self.len,
            xla_ffi::__private::frame::name(self.dtype)
        )))
    }
}

/// All operands and results of a call, for [`Describe`](super::Describe).
///
/// ```
/// # use std::ffi::{c_char, c_void};
/// use xla_ffi_legacy::{Descriptor, Operands};
/// use xla_ffi::{DataType, prelude::*, sys::XlaCustomCallStatus};
///
/// /// y = x, as many numbers as the opaque bytes say.
/// unsafe extern "C" fn copy(
///     out: *mut c_void,
///     ins: *mut *const c_void,
///     opaque: *const c_char,
///     _opaque_len: usize,
///     _status: *mut XlaCustomCallStatus,
/// ) {
///     // SAFETY: `sizes` wrote eight bytes.
///     let n = unsafe { opaque.cast::<u64>().read_unaligned() } as usize;
///     // SAFETY: n numbers each.
///     unsafe { std::ptr::copy_nonoverlapping((*ins).cast::<f32>(), out.cast::<f32>(), n) };
/// }
///
/// fn sizes(operands: &Operands, opaque: &mut Descriptor) -> Result<()> {
///     if (operands.arg_count(), operands.ret_count()) != (1, 1) {
///         return Err(Error::invalid_argument("expected x and y"));
///     }
///     let n = operands.arg(0)?.len;
///     operands.ret(0)?.expect("y", DataType::F32, n)?;
///     opaque.push(n as u64);
///     Ok(())
/// }
///
/// xla_ffi_legacy::adapt! { copy_ffi = unsafe cpu_unified(copy), describe = sizes; }
///
/// // A host of the original convention calls the handler, and so the function.
/// xla_ffi_legacy::legacy! { copy_again = cpu(copy_ffi): f32[3] -> f32[3] }
/// xla_ffi::library! { name = "copies"; copy_ffi, legacy copy_again }
///
/// unsafe extern "C" {
///     fn copies__copy_again(out: *mut c_void, ins: *mut *const c_void);
/// }
/// # fn main() {
/// let (x, mut y) = ([1.0_f32, 2.0, 3.0], [0.0_f32; 3]);
/// let mut ins = [(&raw const x).cast()];
/// // SAFETY: three numbers each.
/// unsafe { copies__copy_again((&raw mut y).cast(), ins.as_mut_ptr()) };
/// assert_eq!(x, y);
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Operands<'f> {
    pub(super) frame: Frame<'f>,
}

impl<'f> Operands<'f> {
    /// Returns the number of arguments.
    #[must_use]
    pub fn arg_count(&self) -> usize {
        self.frame.arg_count()
    }

    /// Returns the number of results.
    #[must_use]
    pub fn ret_count(&self) -> usize {
        self.frame.ret_count()
    }

    /// Returns the argument with index `index`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the call has no argument with this index.
    pub fn arg(&self, index: usize) -> Result<Operand<'f>> {
        self.frame.arg(index).and_then(look).ok_or_else(|| {
            Error::invalid_argument(format!(
                "argument {index} is missing, the call has {}",
                self.arg_count()
            ))
        })
    }

    /// Returns the result with index `index`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the call has no result with this index.
    pub fn ret(&self, index: usize) -> Result<Operand<'f>> {
        self.frame.ret(index).and_then(look).ok_or_else(|| {
            Error::invalid_argument(format!(
                "result {index} is missing, the call has {}",
                self.ret_count()
            ))
        })
    }
}

impl std::fmt::Debug for Operands<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operands")
            .field("args", &self.arg_count())
            .field("rets", &self.ret_count())
            .finish()
    }
}

/// Converts a buffer to an operand; `None` if the buffer's elements have no address.
pub(super) fn look(raw: RawBuffer<'_>) -> Option<Operand<'_>> {
    let (dims, len) = raw.shape()?;
    if len > 0 && raw.data().is_null() && raw.dtype() != XLA_FFI_DataType::TOKEN {
        return None;
    }
    Some(Operand {
        dtype: raw.dtype(),
        dims,
        len,
        data: raw.data(),
    })
}

/// The `opaque` bytes of an adapted function, written by [`Describe`](super::Describe).
///
/// ```
/// use xla_ffi_legacy::Descriptor;
///
/// let mut opaque = Descriptor::new();
/// opaque.push(2_i32);
/// opaque.extend(b"ab");
/// assert_eq!(opaque.as_bytes(), b"\x02\0\0\0ab");
/// ```
#[derive(Debug, Default)]
pub struct Descriptor(Vec<u8>);

impl Descriptor {
    /// Creates an empty descriptor.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes to the descriptor.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Appends the bytes of a number, in native byte order.
    pub fn push<T: Element>(&mut self, value: T) {
        // SAFETY: an `Element` has no padding, so all bytes of the value are initialised.
        let bytes =
            unsafe { std::slice::from_raw_parts((&raw const value).cast::<u8>(), size_of::<T>()) };
        self.extend(bytes);
    }

    /// Returns the bytes of the descriptor.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes of an attribute that is a string or an array of any type.
#[derive(Clone, Copy, Debug)]
pub struct Opaque<'f>(&'f [u8]);

impl<'f> Opaque<'f> {
    /// An [`Opaque`] without bytes, for calls without the attribute.
    pub const EMPTY: Self = Self(&[]);

    /// Returns the bytes of the attribute's value.
    #[must_use]
    pub fn as_bytes(self) -> &'f [u8] {
        self.0
    }
}

impl<'f> Attribute<'f> for Opaque<'f> {
    const TYPE: AttrType = AttrType::Any;

    fn decode(value: AttrValue<'f>, _narrow: bool) -> Option<Self> {
        value.as_bytes().map(Self)
    }
}
