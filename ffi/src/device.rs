//! Operands in device memory: pointers and shapes, never slices.

use std::marker::PhantomData;

use crate::bind::Bind;
use crate::buffer::{ANY_RANK, rank};
use crate::diagnose::Problems;
use crate::element::{DataTypes, Element};
use crate::frame::{Frame, RawBuffer};
use crate::param::{At, Kind, Param};
use xla_ffi_sys::XLA_FFI_DataType;

/// The pointer and the shape of an operand whose elements this process cannot reach.
#[derive(Clone, Copy)]
struct Place<'f> {
    raw: RawBuffer<'f>,
    dims: &'f [usize],
    len: usize,
}

impl<'f> Place<'f> {
    fn decode(
        raw: RawBuffer<'f>,
        dtype: Option<XLA_FFI_DataType>,
        rank: Option<usize>,
    ) -> Option<Self> {
        if dtype.is_some_and(|dtype| raw.dtype() != dtype)
            || rank.is_some_and(|rank| raw.rank() != rank as i64)
        {
            return None;
        }
        let (dims, len) = raw.shape()?;
        if len > 0 && raw.dtype() != XLA_FFI_DataType::TOKEN && raw.data().is_null() {
            return None;
        }
        if let Some(dtype) = dtype {
            crate::buffer::byte_size(dtype, len)?;
        }
        Some(Self { raw, dims, len })
    }
}

macro_rules! device {
    ($(#[$meta:meta])* $name:ident $any:ident $kind:ident $operand:ident $index:ident
     $(#[$any_meta:meta])* $pointer:ident $get:ident) => {
        $(#[$meta])*
        pub struct $name<'f, T, const RANK: usize = ANY_RANK> {
            place: Place<'f>,
            _elements: PhantomData<*mut T>,
        }

        // SAFETY: an address and a shape; reading through it is the user's unsafe act.
        unsafe impl<T: Send, const RANK: usize> Send for $name<'_, T, RANK> {}
        // SAFETY: as above.
        unsafe impl<T: Sync, const RANK: usize> Sync for $name<'_, T, RANK> {}

        impl<'f, T: Element, const RANK: usize> $name<'f, T, RANK> {
            /// Number of elements along each dimension.
            #[must_use]
            pub fn dims(&self) -> &'f [usize] {
                self.place.dims
            }

            /// The dimensions as an array; for operands of fixed rank.
            #[must_use]
            pub fn shape(&self) -> [usize; RANK] {
                const { assert!(RANK != ANY_RANK, "`shape` needs a fixed rank") };
                let mut shape = [0; RANK];
                shape.copy_from_slice(self.place.dims);
                shape
            }

            /// Number of elements.
            #[must_use]
            pub fn len(&self) -> usize {
                self.place.len
            }

            /// Whether there are no elements.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.place.len == 0
            }

            /// Bytes of all elements.
            #[must_use]
            pub fn byte_size(&self) -> usize {
                self.place.len * size_of::<T>()
            }

            /// The address in device memory; may be null where there are no elements.
            #[must_use]
            pub fn $get(&self) -> $pointer!(T) {
                self.place.raw.data().cast()
            }
        }

        impl<T, const RANK: usize> std::fmt::Debug for $name<'_, T, RANK> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("data", &self.place.raw.data())
                    .field("dims", &self.place.dims)
                    .finish()
            }
        }

        // SAFETY: reaches no memory by itself.
        unsafe impl<'f, T: Element, const RANK: usize> Bind<'f> for $name<'f, T, RANK> {
            const PARAM: Param =
                Param::operand(Kind::$kind, DataTypes::only(T::DTYPE), rank(RANK)).on_device();

            #[inline]
            fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
                let raw = frame.$operand(at.$index)?;
                Some(Self {
                    place: Place::decode(raw, Some(T::DTYPE), rank(RANK))?,
                    _elements: PhantomData,
                })
            }

            fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
                problems.$operand(frame, at, 1);
            }
        }

        $(#[$any_meta])*
        pub struct $any<'f> {
            place: Place<'f>,
        }

        // SAFETY: an address and a shape; reading through it is the user's unsafe act.
        unsafe impl Send for $any<'_> {}
        // SAFETY: as above.
        unsafe impl Sync for $any<'_> {}

        impl<'f> $any<'f> {
            /// The element type.
            #[must_use]
            pub fn dtype(&self) -> XLA_FFI_DataType {
                self.place.raw.dtype()
            }

            /// Number of elements along each dimension.
            #[must_use]
            pub fn dims(&self) -> &'f [usize] {
                self.place.dims
            }

            /// Number of elements.
            #[must_use]
            pub fn element_count(&self) -> usize {
                self.place.len
            }

            /// Bytes of all elements, sub-byte types packed; `None` where the size of the element
            /// type is not known to this SDK.
            #[must_use]
            pub fn byte_size(&self) -> Option<usize> {
                crate::buffer::byte_size(self.dtype(), self.place.len)
            }

            /// The address in device memory; may be null where there are no elements.
            #[must_use]
            pub fn $get(&self) -> $pointer!(std::ffi::c_void) {
                self.place.raw.data()
            }
        }

        impl std::fmt::Debug for $any<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($any))
                    .field("data", &self.place.raw.data())
                    .field("dtype", &crate::element::name(self.dtype()))
                    .field("dims", &self.place.dims)
                    .finish()
            }
        }

        // SAFETY: reaches no memory by itself.
        unsafe impl<'f> Bind<'f> for $any<'f> {
            const PARAM: Param = Param::operand(Kind::$kind, DataTypes::ANY, None).on_device();

            #[inline]
            fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
                let raw = frame.$operand(at.$index)?;
                Some(Self {
                    place: Place::decode(raw, None, None)?,
                })
            }

            fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
                problems.$operand(frame, at, 1);
            }
        }
    };
}

macro_rules! read {
    ($ty:ty) => {
        *const $ty
    };
}

macro_rules! write {
    ($ty:ty) => {
        *mut $ty
    };
}

device! {
    /// An argument in device memory with elements of type `T`. A handler whose operands are all of
    /// this kind runs on GPUs: register it with `platforms = ["cuda"]`. Since r0.
    ///
    /// ```
    /// use xla_ffi::{DeviceBuffer, DeviceOut, prelude::*};
    ///
    /// #[xla_ffi::handler(platforms = ["cuda"], shape = "... -> ...")]
    /// fn launch(x: DeviceBuffer<f32>, y: DeviceOut<f32>, stream: Stream) -> Result<()> {
    ///     let (from, to, count) = (x.as_device_ptr(), y.as_device_mut_ptr(), x.len());
    ///     // … a kernel on `stream.as_raw()`, which reads `count` elements …
    ///     # let _ = (from, to, count, stream.as_raw());
    ///     Ok(())
    /// }
    /// ```
    ///
    /// An argument and a result may be the same memory here, when the caller said so
    /// (`input_output_aliases`): nothing is checked, since nothing is read.
    DeviceBuffer AnyDeviceBuffer Arg arg arg
    /// An argument in device memory of any element type and rank. Since r0.
    read as_device_ptr
}

device! {
    /// A result in device memory with elements of type `T`; see [`DeviceBuffer`]. Since r0.
    DeviceOut AnyDeviceOut Ret ret ret
    /// A result in device memory of any element type and rank. Since r0.
    write as_device_mut_ptr
}
