//! Operands in device memory: pointers and shapes, never slices.

use std::marker::PhantomData;

use crate::error::problems::Problems;
use crate::frame::Frame;
use crate::frame::element::{ANY_RANK, DataTypes, Element, rank};
use crate::frame::raw_buffer::RawBuffer;
#[cfg(debug_assertions)]
use crate::frame::result_ledger::mark_accessed;
use crate::param::bind::{At, Bind};
use crate::param::{Kind, Param};
use xla_ffi_sys::XLA_FFI_DataType;

/// The pointer and the shape of an operand in device memory. The host process may be unable to read
/// this memory.
#[derive(Clone, Copy)]
struct Place<'f> {
    raw: RawBuffer<'f>,
    dims: &'f [usize],
    len: usize,
}

impl<'f> Place<'f> {
    /// Decodes an operand with elements of type `T`. Any alignment is accepted, because this crate
    /// does not read the elements.
    #[inline(always)]
    fn typed<T: Element>(raw: RawBuffer<'f>, rank: Option<usize>) -> Option<Self> {
        if raw.dtype() != T::DTYPE {
            return None;
        }
        let view = raw.untyped(size_of::<T>(), 1, rank)?;
        Some(Self {
            raw,
            dims: view.dims,
            len: view.len,
        })
    }

    #[inline]
    fn any(raw: RawBuffer<'f>) -> Option<Self> {
        let (dims, len) = raw.shape()?;
        if len > 0 && raw.dtype() != XLA_FFI_DataType::TOKEN && raw.data().is_null() {
            return None;
        }
        Some(Self { raw, dims, len })
    }
}

macro_rules! device {
    ($(#[$meta:meta])* $name:ident $kind:ident $operand:ident $index:ident $pointer:ident $get:ident) => {
        $(#[$meta])*
        pub struct $name<'f, T, const RANK: usize = ANY_RANK> {
            place: Place<'f>,
            _elements: PhantomData<*mut T>,
        }

        // SAFETY: the type holds an address and a shape. Dereferencing the address is `unsafe` and
        // the user's responsibility.
        unsafe impl<T: Send, const RANK: usize> Send for $name<'_, T, RANK> {}
        // SAFETY: the type holds an address and a shape. Dereferencing the address is `unsafe` and
        // the user's responsibility.
        unsafe impl<T: Sync, const RANK: usize> Sync for $name<'_, T, RANK> {}

        impl<'f, T: Element, const RANK: usize> $name<'f, T, RANK> {
            /// Returns the number of elements along each dimension.
            #[must_use]
            pub fn dims(&self) -> &'f [usize] {
                self.place.dims
            }

            /// Returns the dimensions as an array. Requires a fixed rank.
            #[must_use]
            pub fn shape(&self) -> [usize; RANK] {
                const { assert!(RANK != ANY_RANK, "`shape` needs a fixed rank") };
                let mut shape = [0; RANK];
                shape.copy_from_slice(self.place.dims);
                shape
            }

            /// Returns the number of elements.
            #[must_use]
            pub fn len(&self) -> usize {
                self.place.len
            }

            /// Returns true if there are no elements.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.place.len == 0
            }

            /// Returns the size of all elements in bytes.
            #[must_use]
            pub fn byte_size(&self) -> usize {
                self.place.len * size_of::<T>()
            }

            /// Returns the address in device memory, which may be null if there are no elements.
            #[must_use]
            pub fn $get(&self) -> $pointer!(T) {
                #[cfg(debug_assertions)]
                $pointer!(handed self.place);
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

        // SAFETY: the value does not access the operand's memory.
        unsafe impl<'f, T: Element, const RANK: usize> Bind<'f> for $name<'f, T, RANK> {
            const PARAM: Param =
                Param::operand(Kind::$kind, DataTypes::only(T::DTYPE), rank(RANK)).on_device();

            #[inline]
            fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
                let raw = frame.$operand(at.$index)?;
                Some(Self {
                    place: Place::typed::<T>(raw, rank(RANK))?,
                    _elements: PhantomData,
                })
            }

            fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
                problems.$operand(frame, at, 1);
            }
        }
    };
}

macro_rules! any_device {
    ($(#[$meta:meta])* $any:ident $kind:ident $operand:ident $index:ident $pointer:ident $get:ident) => {
        $(#[$meta])*
        pub struct $any<'f> {
            place: Place<'f>,
        }

        // SAFETY: the type holds an address and a shape. Dereferencing the address is `unsafe` and
        // the user's responsibility.
        unsafe impl Send for $any<'_> {}
        // SAFETY: the type holds an address and a shape. Dereferencing the address is `unsafe` and
        // the user's responsibility.
        unsafe impl Sync for $any<'_> {}

        impl<'f> $any<'f> {
            /// Returns the element type.
            #[must_use]
            pub fn dtype(&self) -> XLA_FFI_DataType {
                self.place.raw.dtype()
            }

            /// Returns the number of elements along each dimension.
            #[must_use]
            pub fn dims(&self) -> &'f [usize] {
                self.place.dims
            }

            /// Returns the number of elements.
            #[must_use]
            pub fn element_count(&self) -> usize {
                self.place.len
            }

            /// Returns the size of all elements in bytes, or `None` if the size of the element type
            /// is unknown. Elements smaller than a byte are packed.
            #[must_use]
            pub fn byte_size(&self) -> Option<usize> {
                self.dtype().bytes_for(self.place.len)
            }

            /// Returns the address in device memory, which may be null if there are no elements.
            #[must_use]
            pub fn $get(&self) -> $pointer!(std::ffi::c_void) {
                #[cfg(debug_assertions)]
                $pointer!(handed self.place);
                self.place.raw.data()
            }
        }

        impl std::fmt::Debug for $any<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($any))
                    .field("data", &self.place.raw.data())
                    .field("dtype", &crate::frame::element::name(self.dtype()))
                    .field("dims", &self.place.dims)
                    .finish()
            }
        }

        // SAFETY: the value does not access the operand's memory.
        unsafe impl<'f> Bind<'f> for $any<'f> {
            const PARAM: Param = Param::operand(Kind::$kind, DataTypes::ANY, None).on_device();

            #[inline]
            fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
                let raw = frame.$operand(at.$index)?;
                Some(Self {
                    place: Place::any(raw)?,
                })
            }

            fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
                problems.$operand(frame, at, 1);
            }
        }
    };
}

macro_rules! read {
    (handed $place:expr) => {};
    ($ty:ty) => {
        *const $ty
    };
}

macro_rules! write {
    (handed $place:expr) => {
        mark_accessed($place.raw.data().cast_const().cast())
    };
    ($ty:ty) => {
        *mut $ty
    };
}

device! {
    /// An argument in device memory with elements of type `T`. A handler with only device operands
    /// runs on GPUs: register it with `platforms = ["cuda"]`. Available since r0 (jaxlib 0.4.31).
    ///
    /// ```
    /// use xla_ffi::{DeviceBuffer, DeviceOut, prelude::*};
    /// use xla_ffi_runtime::{CpuDevice, CpuStream, DeviceStream};
    ///
    /// #[xla_ffi::handler(platforms = ["cuda"], shape = "n -> n")]
    /// fn double(x: DeviceBuffer<f32, 1>, y: DeviceOut<f32, 1>, stream: Stream) -> Result<()> {
    ///     let [n] = x.shape();
    ///     assert_eq!((x.dims(), x.byte_size()), ([n].as_slice(), 4 * n));
    ///     let (x, y) = (x.as_device_ptr() as usize, y.as_device_mut_ptr() as usize);
    ///     // The embedded runtime's device is a thread: what would be a kernel is a closure there.
    ///     let queue = CpuStream::from_handle(stream.as_raw())
    ///         .ok_or_else(|| Error::internal("not a stream of the embedded runtime"))?;
    ///     queue.enqueue(Box::new(move || {
    ///         for i in 0..n {
    ///             // SAFETY: both have `n` elements until the stream has run this.
    ///             let element = unsafe { (x as *const f32).add(i).read() };
    ///             // SAFETY: as above.
    ///             unsafe { (y as *mut f32).add(i).write(2.0 * element) };
    ///         }
    ///     }));
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let call = embed::call::<double>("{}")?
    ///     .on_device(&CpuDevice::new()?)
    ///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
    ///     .ret(Shape::new(DType::F32, [2])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2.0_f32, 4.0]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// An argument and a result may share memory if the caller requests it
    /// (`input_output_aliases`). This is not checked, because this crate does not read the
    /// elements.
    DeviceBuffer Arg arg arg read as_device_ptr
}

any_device! {
    /// An argument in device memory of any element type and rank. Available since r0 (jaxlib
    /// 0.4.31).
    ///
    /// ```
    /// use xla_ffi::{prelude::*, device::{AnyDeviceBuffer, AnyDeviceOut}};
    ///
    /// /// What a copy on the stream would be given.
    /// #[xla_ffi::handler(platforms = ["cuda"])]
    /// fn copy(x: AnyDeviceBuffer, y: AnyDeviceOut) -> Result<()> {
    ///     if x.dtype() != y.dtype() || x.dims() != y.dims() {
    ///         return Err(Error::invalid_argument("`y` is not like `x`"));
    ///     }
    ///     assert!(!x.as_device_ptr().is_null() && !y.as_device_mut_ptr().is_null());
    ///     assert_eq!((x.element_count(), x.byte_size()), (2, Some(8)));
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let on = |ret| {
    ///     let x = Tensor::from_slice([2], &[1_i32, 2])?;
    ///     embed::call::<copy>("{}")?.arg(x).ret(ret).run()
    /// };
    /// assert!(on(Shape::new(DType::S32, [2])?).is_ok());
    /// assert!(on(Shape::new(DType::F32, [2])?).is_err());
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    AnyDeviceBuffer Arg arg arg read as_device_ptr
}

device! {
    /// A result in device memory with elements of type `T`. See [`DeviceBuffer`] for an example
    /// that uses the stream. Available since r0 (jaxlib 0.4.31).
    ///
    /// ```
    /// use xla_ffi::{DeviceOut, prelude::*};
    ///
    /// #[xla_ffi::handler(platforms = ["cuda"])]
    /// fn fill(y: DeviceOut<f32, 2>, #[attr(narrow)] value: f32) -> Result<()> {
    ///     let [rows, columns] = y.shape();
    ///     assert_eq!(y.dims(), [rows, columns]);
    ///     assert_eq!(y.byte_size(), 4 * y.len());
    ///     let kernel_arguments = (y.as_device_mut_ptr(), y.len(), value);
    ///     assert!(!kernel_arguments.0.is_null());
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<fill>("{value = 1.0}")?.ret(Shape::new(DType::F32, [2, 3])?);
    /// assert!(call.run().is_ok());
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    DeviceOut Ret ret ret write as_device_mut_ptr
}

any_device! {
    /// A result in device memory of any element type and rank. Available since r0 (jaxlib 0.4.31).
    ///
    /// ```
    /// use xla_ffi::{DataType, prelude::*, device::AnyDeviceOut};
    ///
    /// #[xla_ffi::handler(platforms = ["cuda"])]
    /// fn clear(y: AnyDeviceOut) -> Result<()> {
    ///     let Some(bytes) = y.byte_size() else {
    ///         return Err(Error::unimplemented("an element type of unknown size"));
    ///     };
    ///     let memset_arguments = (y.as_device_mut_ptr(), 0, bytes);
    ///     assert_eq!((y.dtype(), y.dims()), (DataType::F64, [2].as_slice()));
    ///     assert_eq!((y.element_count(), memset_arguments.2), (2, 16));
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<clear>("{}")?.ret(Shape::new(DType::F64, [2])?);
    /// assert!(call.run().is_ok());
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    AnyDeviceOut Ret ret ret write as_device_mut_ptr
}
