//! Single operands that outlive the handler, which [`Later`](crate::Later) passes to a promise.
//!
//! A promise copies only the dimensions of its operands. The bodies of `async fn` handlers can also keep attributes,
//! so they use a copy of the whole frame (`frame_copy`).

use std::ffi::c_void;
use std::ops::Range;
use std::rc::Rc;

use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::element::Element;
use crate::frame::raw_buffer::{RawBuffer, Typed};
use crate::future::split::Divide;
use crate::future::{Detach, Kept};
use crate::operand::buffer::Buffer;
use crate::operand::inout::InOut;
use crate::operand::out::Out;
use crate::operand::untyped::{AnyBuffer, AnyOut};
use xla_ffi_sys::XLA_FFI_Buffer;

/// The parts of a typed operand: the address of the data, a copy of the dimensions, and the number
/// of elements.
#[derive(Debug)]
struct Parts<T> {
    data: *mut T,
    dims: Box<[usize]>,
    len: usize,
}

// SAFETY: only this value accesses the data, which is a slice of numbers. The data is valid until the call is
// completed, which first consumes this value.
unsafe impl<T: Send + Sync> Send for Parts<T> {}

/// Returns the size of a result's first dimension, which the parts of a call divide.
fn first(dims: &[usize]) -> Result<Option<usize>> {
    match dims.first() {
        Some(rows) => Ok(Some(*rows)),
        None => Err(Error::invalid_argument(
            "a result that is a scalar cannot be divided into parts: gather their shares",
        )),
    }
}

impl<T> Parts<T> {
    /// Returns a view of the operand.
    fn view(&self) -> Typed<'_, T> {
        Typed {
            data: self.data,
            dims: &self.dims,
            len: self.len,
        }
    }

    /// Returns a copy of the operand that refers to the same data.
    fn whole(&self) -> Self {
        Self {
            data: self.data,
            dims: self.dims.clone(),
            len: self.len,
        }
    }

    /// Returns the rows `rows` of the operand, which must be within the first dimension.
    fn rows(&self, rows: Range<usize>) -> Self {
        let row = self.len.checked_div(self.dims[0]).unwrap_or(0);
        let mut dims = self.dims.clone();
        dims[0] = rows.len();
        Self {
            // The address is within the elements or at the end of the elements.
            data: self.data.wrapping_add(rows.start * row),
            dims,
            len: rows.len() * row,
        }
    }
}

/// Panics if an operand does not belong to the call. A promise lends operands of its own call while a closure runs.
/// The types do not distinguish lent operands of different calls, so the addresses are compared.
#[inline(always)]
fn assert_of(call: &Frame<'_>, data: *const c_void, len: usize) {
    if len > 0 && !call.has_operand_at(data) {
        not_of_the_call();
    }
}

#[cold]
#[inline(never)]
fn not_of_the_call() -> ! {
    panic!(
        "a promise was given an operand of another call, which only the promise of that call may keep"
    )
}

macro_rules! detach {
    ($(#[$meta:meta])* $kept:ident of $name:ident) => {
        #[doc = concat!("A [`", stringify!($name), "`] kept until the call is completed.")]
        ///
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $kept<T, const RANK: usize>(Parts<T>);

        // SAFETY: of the host's memory, only the data pointer is kept.
        unsafe impl<T: Element, const RANK: usize> Detach for $name<'_, T, RANK> {
            type Kept = $kept<T, RANK>;

            unsafe fn detach(self, call: &Frame<'_>) -> Self::Kept {
                let view = self.into_view();
                assert_of(call, view.data.cast_const().cast(), view.len);
                let Typed { data, dims, len } = view;
                $kept(Parts {
                    data,
                    dims: dims.into(),
                    len,
                })
            }
        }

        impl<T: Element, const RANK: usize> Kept for $kept<T, RANK> {
            type At<'a> = $name<'a, T, RANK>;

            fn at(&mut self) -> Self::At<'_> {
                // SAFETY: the view belongs to an operand of this kind, and its data outlives this value.
                unsafe { $name::from_view(self.0.view()) }
            }
        }
    };
}

macro_rules! divide_result {
    ($kept:ident) => {
        // SAFETY: rows of a row-major array are contiguous ranges of its elements.
        unsafe impl<T: Element, const RANK: usize> Divide for $kept<T, RANK> {
            type Shared = ();

            fn rows(&self) -> Result<Option<usize>> {
                first(&self.0.dims)
            }

            unsafe fn piece(&self, rows: Range<usize>) -> Result<Self> {
                Ok(Self(self.0.rows(rows)))
            }

            unsafe fn shared(&self) {}
        }
    };
}

detach! {
    /// ```
    /// use xla_ffi::{Later, prelude::*, later::{KeptBuffer, KeptOut, Promise}};
    ///
    /// /// What a worker is sent: both operands, and the duty to complete the call.
    /// type Job = Promise<(KeptBuffer<f32, 1>, KeptOut<f32, 1>)>;
    ///
    /// fn work(job: Job) {
    ///     job.complete_with(|(x, mut y)| {
    ///         y.write_iter(x.iter().map(|x| x.exp()))
    ///     });
    /// }
    ///
    /// #[xla_ffi::handler(shape = "n -> n")]
    /// fn exponential(x: Buffer<f32, 1>, y: Out<f32, 1>, later: Later) -> Result<()> {
    ///     let job = later.promise((x, y));
    ///     std::thread::spawn(move || work(job));
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let call = embed::call::<exponential>("{}")?
    ///     .arg(Tensor::from_slice([1], &[0.0_f32])?)
    ///     .ret(Shape::new(DType::F32, [1])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![1.0_f32]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    KeptBuffer of Buffer
}
detach! {
    /// ```
    /// use std::sync::Mutex;
    /// use xla_ffi::{Later, prelude::*, later::{KeptOut, Promise}};
    ///
    /// /// Calls that wait for somebody to answer them.
    /// static WAITING: Mutex<Vec<Promise<KeptOut<i64, 0>>>> = Mutex::new(Vec::new());
    ///
    /// #[xla_ffi::handler]
    /// fn ask(y: Out<i64, 0>, later: Later) -> Result<()> {
    ///     let promise = later.promise(y);
    ///     WAITING.lock().unwrap().push(promise);
    ///     std::thread::spawn(|| answer(42));
    ///     Ok(())
    /// }
    ///
    /// fn answer(value: i64) {
    ///     for promise in WAITING.lock().unwrap().drain(..) {
    ///         promise.complete_with(|mut y| {
    ///             y.fill(value);
    ///             Ok(())
    ///         });
    ///     }
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<ask>("{}")?.ret(Shape::new(DType::S64, [])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![42_i64]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    KeptOut of Out
}
detach! {
    /// ```
    /// use xla_ffi::{Later, prelude::*, later::{KeptInOut, Promise}};
    ///
    /// fn increment(promise: Promise<KeptInOut<i32, 1>>) {
    ///     promise.complete_with(|mut x| {
    ///         x.iter_mut().for_each(|x| *x += 1);
    ///         Ok(())
    ///     });
    /// }
    ///
    /// #[xla_ffi::handler]
    /// fn next(x: InOut<i32, 1>, later: Later) -> Result<()> {
    ///     let promise = later.promise(x);
    ///     std::thread::spawn(move || increment(promise));
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, Tensor};
    /// let call = embed::call::<next>("{}")?
    ///     .arg(Tensor::from_slice([2], &[1, 2])?)
    ///     .ret_alias(0);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2, 3]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    KeptInOut of InOut
}
divide_result!(KeptOut);
divide_result!(KeptInOut);

// SAFETY: arguments are only read, so all pieces may share them.
unsafe impl<T: Element, const RANK: usize> Divide for KeptBuffer<T, RANK> {
    type Shared = Self;

    fn rows(&self) -> Result<Option<usize>> {
        Ok(None)
    }

    unsafe fn piece(&self, _rows: Range<usize>) -> Result<Self> {
        Ok(Self(self.0.whole()))
    }

    unsafe fn shared(&self) -> Self {
        Self(self.0.whole())
    }
}

/// An untyped operand that outlives the handler: its buffer struct and the dimensions that the struct points to.
struct AnyParts {
    // Invariant: a complete buffer struct whose `dims` point into `_dims`.
    raw: Rc<XLA_FFI_Buffer>,
    _dims: Rc<[i64]>,
}

// SAFETY: the data is reachable only through this value, and is valid until the call is completed. The structs are
// never written after creation, and their reference counts stay 1.
unsafe impl Send for AnyParts {}

impl AnyParts {
    fn new(buffer: RawBuffer<'_>) -> Self {
        Self::with(buffer, buffer.data(), buffer.raw_dims().into())
    }

    /// Creates an operand like `buffer`, with different data and different dimensions of the same
    /// rank.
    fn with(buffer: RawBuffer<'_>, data: *mut c_void, dims: Rc<[i64]>) -> Self {
        let raw = XLA_FFI_Buffer {
            struct_size: XLA_FFI_Buffer::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            dtype: buffer.dtype(),
            data,
            rank: buffer.rank(),
            dims: dims.as_ptr().cast_mut(),
        };
        Self {
            raw: Rc::new(raw),
            _dims: dims,
        }
    }

    /// Returns the rows `rows` of the operand, which must be within the first dimension.
    fn rows(&self, rows: Range<usize>) -> Result<Self> {
        let raw = self.at();
        let (dims, len) = raw.shape().unwrap_or_default();
        let row = dims.first().and_then(|rows| len.checked_div(*rows));
        let start = rows.start * row.unwrap_or(0);
        let packed = raw.dtype().bits().filter(|bits| (1..8).contains(bits));
        // Only nonempty ranges of rows must start at a byte boundary.
        let packed = packed.filter(|_| !rows.is_empty());
        if packed.is_some_and(|bits| start % (8 / bits) != 0) {
            return Err(Error::invalid_argument(format!(
                "a result of {} cannot be divided here: row {} does not begin at a byte",
                crate::frame::element::name(raw.dtype()),
                rows.start
            )));
        }
        let mut dims: Rc<[i64]> = raw.raw_dims().into();
        if let Some([first, ..]) = Rc::get_mut(&mut dims) {
            *first = rows.len() as i64;
        }
        // The address is within the elements or at the end of the elements.
        let before = raw.dtype().bytes_for(start).unwrap_or(0);
        let data = raw.data().wrapping_byte_add(before);
        Ok(Self::with(raw, data, dims))
    }

    fn at(&self) -> RawBuffer<'_> {
        // SAFETY: `raw` is a complete buffer struct (the invariant of the field), and both
        // allocations live as long as `self`.
        let raw = unsafe { RawBuffer::new(&raw const *self.raw) };
        raw.expect("a whole struct is not refused")
    }
}

macro_rules! detach_any {
    ($(#[$meta:meta])* $kept:ident of $name:ident) => {
        #[doc = concat!("A [`", stringify!($name), "`] kept until the call is completed.")]
        ///
        $(#[$meta])*
        pub struct $kept(AnyParts);

        impl std::fmt::Debug for $kept {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($kept)).finish_non_exhaustive()
            }
        }

        // SAFETY: of the host's memory, only the data pointer is kept.
        unsafe impl Detach for $name<'_> {
            type Kept = $kept;

            unsafe fn detach(self, call: &Frame<'_>) -> $kept {
                assert_of(call, self.raw().data(), self.byte_size());
                $kept(AnyParts::new(self.raw()))
            }
        }

        impl Kept for $kept {
            type At<'a> = $name<'a>;

            fn at(&mut self) -> $name<'_> {
                $name::decode(self.0.at()).expect("it was decoded once")
            }
        }
    };
}

detach_any! {
    /// ```
    /// use xla_ffi::{Later, prelude::*, later::{KeptAnyBuffer, KeptAnyOut, Promise}};
    ///
    /// fn copy(promise: Promise<(KeptAnyBuffer, KeptAnyOut)>) {
    ///     promise.complete_with(|(x, mut y)| {
    ///         y.copy_from_bytes(x.bytes())
    ///     });
    /// }
    ///
    /// #[xla_ffi::handler]
    /// fn slow_copy(x: AnyBuffer, y: AnyOut, later: Later) -> Result<()> {
    ///     let promise = later.promise((x, y));
    ///     std::thread::spawn(move || copy(promise));
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let call = embed::call::<slow_copy>("{}")?
    ///     .arg(Tensor::from_slice([2], &[1_i16, 2])?)
    ///     .ret(Shape::new(DType::S16, [2])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![1_i16, 2]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    KeptAnyBuffer of AnyBuffer
}
detach_any! {
    /// ```
    /// use xla_ffi::{Later, prelude::*, later::{KeptAnyOut, Part}};
    ///
    /// fn clear(part: Part<KeptAnyOut>) {
    ///     part.complete_with(|mut y| {
    ///         y.fill_bytes(0);
    ///         Ok(())
    ///     });
    /// }
    ///
    /// #[xla_ffi::handler]
    /// fn zeros(y: AnyOut, later: Later) -> Result<()> {
    ///     let promise = later.promise(y);
    ///     for part in promise.count_down(2)? {
    ///         std::thread::spawn(move || clear(part));
    ///     }
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<zeros>("{}")?.ret(Shape::new(DType::S16, [3, 2])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![0_i16; 6]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    KeptAnyOut of AnyOut
}

// SAFETY: arguments are only read, so all pieces may share them.
unsafe impl Divide for KeptAnyBuffer {
    type Shared = Self;

    fn rows(&self) -> Result<Option<usize>> {
        Ok(None)
    }

    unsafe fn piece(&self, _rows: Range<usize>) -> Result<Self> {
        Ok(Self(AnyParts::new(self.0.at())))
    }

    unsafe fn shared(&self) -> Self {
        Self(AnyParts::new(self.0.at()))
    }
}

// SAFETY: rows of a row-major array are contiguous ranges of its bytes if they start at a byte boundary.
unsafe impl Divide for KeptAnyOut {
    type Shared = ();

    fn rows(&self) -> Result<Option<usize>> {
        first(AnyOut::decode(self.0.at()).map_or(&[], |out| out.dims()))
    }

    unsafe fn piece(&self, rows: Range<usize>) -> Result<Self> {
        self.0.rows(rows).map(Self)
    }

    unsafe fn shared(&self) {}
}

macro_rules! tuples {
    ($($name:ident)*) => {
        // SAFETY: each element of the tuple upholds the contract.
        unsafe impl<$($name: Detach),*> Detach for ($($name,)*) {
            type Kept = ($($name::Kept,)*);

            #[allow(non_snake_case, unused_variables, clippy::unused_unit, reason = "called as types")]
            unsafe fn detach(self, call: &Frame<'_>) -> Self::Kept {
                let ($($name,)*) = self;
                // SAFETY: the caller upholds the contract of `detach` for each element of the
                // tuple.
                ($(unsafe { $name.detach(call) },)*)
            }
        }

        impl<$($name: Kept),*> Kept for ($($name,)*) {
            type At<'a> = ($($name::At<'a>,)*);

            #[allow(non_snake_case, unused_variables, clippy::unused_unit, reason = "called as types")]
            fn at(&mut self) -> Self::At<'_> {
                let ($($name,)*) = self;
                ($($name.at(),)*)
            }
        }

        // SAFETY: each element of the tuple upholds the contract, and no two elements are the same
        // operand.
        unsafe impl<$($name: Divide),*> Divide for ($($name,)*) {
            type Shared = ($($name::Shared,)*);

            #[allow(non_snake_case, unused_variables, clippy::unused_unit, reason = "called as types")]
            fn rows(&self) -> Result<Option<usize>> {
                let ($($name,)*) = self;
                same_rows(&[$($name.rows()?),*])
            }

            #[allow(non_snake_case, unused_variables, clippy::unused_unit, reason = "called as types")]
            unsafe fn piece(&self, rows: Range<usize>) -> Result<Self> {
                let ($($name,)*) = self;
                // SAFETY: the caller upholds the contract of `piece` for each element of the tuple.
                Ok(($(unsafe { $name.piece(rows.clone()) }?,)*))
            }

            #[allow(non_snake_case, unused_variables, clippy::unused_unit, reason = "called as types")]
            unsafe fn shared(&self) -> Self::Shared {
                let ($($name,)*) = self;
                // SAFETY: the caller upholds the contract of `shared` for each element of the
                // tuple.
                ($(unsafe { $name.shared() },)*)
            }
        }
    };
}

/// Returns the number of rows, which must be the same for all results.
fn same_rows(rows: &[Option<usize>]) -> Result<Option<usize>> {
    let mut known = rows.iter().flatten();
    let Some(first) = known.next() else {
        return Ok(None);
    };
    match known.find(|rows| *rows != first) {
        None => Ok(Some(*first)),
        Some(other) => Err(Error::invalid_argument(format!(
            "results of {first} and of {other} rows cannot be divided alike: gather their shares"
        ))),
    }
}

tuples!();
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
