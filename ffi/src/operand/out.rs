//! Results: arrays in host memory that a handler fills.

use std::mem::MaybeUninit;

use crate::error::problems::Problems;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::element::{ANY_RANK, DataTypes, Element, rank};
use crate::frame::raw_buffer::{RawBuffer, Typed, uninit};
#[cfg(debug_assertions)]
use crate::frame::result_ledger::mark_accessed;
use crate::operand::rows::RowsMut;
use crate::param::bind::{At, Bind};
use crate::param::{Kind, Param};

/// A result with elements of type `T`, which the handler fills.
///
/// The host allocates the memory and does not initialize it. The elements are therefore `MaybeUninit` until a filling
/// method runs, which returns the elements as an ordinary slice. A call is rejected if the result has a different
/// element type, rank, alignment or number of elements. It is also rejected if another operand starts at the same
/// address. Available since r0 (jaxlib 0.4.31).
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn double(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
///     let y = y.write_with(|i| x[i]); // from here on a slice that is written
///     y.iter_mut().for_each(|v| *v *= 2.0);
///     Ok(())
/// }
///
/// #[xla_ffi::handler(shape = "n m -> n m, n, n")]
/// fn means(x: Buffer<f32, 2>, mut y: Out<f32, 2>, mut sums: Out<f32>, mut ones: Out<f32>) -> Result<()> {
///     let [_, columns] = y.shape();
///     let mean = |row: &[f32]| row.iter().sum::<f32>() / columns as f32;
///     sums.write_iter(x.rows().map(mean))?;
///     for (row, mean) in y.rows_uninit().zip(x.rows().map(mean)) {
///         row.fill(std::mem::MaybeUninit::new(mean));
///     }
///     ones.fill(1.0);
///     Ok(())
/// }
///
/// #[xla_ffi::handler]
/// fn count(mut y: Out<u64>) -> Result<()> {
///     assert_eq!(y.dims().iter().product::<usize>(), y.as_uninit().len());
///     y.write_with(|i| i as u64);
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<double>("{}")?
///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
///     .ret(Shape::new(DType::F32, [2])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2.0_f32, 4.0]));
///
/// let call = embed::call::<means>("{}")?
///     .arg(Tensor::from_slice([2, 2], &[1.0_f32, 2.0, 3.0, 5.0])?)
///     .ret(Shape::new(DType::F32, [2, 2])?)
///     .ret(Shape::new(DType::F32, [2])?)
///     .ret(Shape::new(DType::F32, [2])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![1.5_f32, 1.5, 4.0, 4.0]));
///
/// let call = embed::call::<count>("{}")?.ret(Shape::new(DType::U64, [3, 1])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![0_u64, 1, 2]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub struct Out<'f, T, const RANK: usize = ANY_RANK> {
    // Invariant: the elements are reachable only through this value.
    view: Typed<'f, T>,
    /// The name of the parameter for error messages; empty if unknown.
    name: &'static str,
}

/// Returns the error for a handler that provides the wrong number of elements for a result.
#[cold]
#[inline(never)]
pub(crate) fn miscounted(name: &str, expected: usize, what: &str, got: usize) -> Error {
    let text = format!("{expected} {what} expected, got {got}");
    Error::internal(about(name, &text))
}

fn about(name: &str, text: &str) -> String {
    let marks = if name.is_empty() { "" } else { "`" };
    let blank = if name.is_empty() { "" } else { " " };
    ["result", blank, marks, name, marks, ": ", text].concat()
}

// SAFETY: the value is a unique slice of elements and a shared slice of dimensions.
unsafe impl<T: Send, const RANK: usize> Send for Out<'_, T, RANK> {}
// SAFETY: a shared reference gives access to the dimensions, but not to the elements.
unsafe impl<T: Sync, const RANK: usize> Sync for Out<'_, T, RANK> {}

impl<'f, T: Element, const RANK: usize> Out<'f, T, RANK> {
    /// Decodes a result. The caller guarantees that no other code accesses the elements until the value is dropped.
    #[inline(always)]
    pub(crate) fn decode(raw: RawBuffer<'f>, name: &'static str) -> Option<Self> {
        Some(Self {
            view: raw.typed(rank(RANK))?,
            name,
        })
    }

    /// Returns the number of elements along each dimension.
    #[must_use]
    #[inline]
    pub fn dims(&self) -> &'f [usize] {
        self.view.dims
    }

    /// Returns the dimensions as an array. Requires a fixed rank.
    #[must_use]
    #[inline]
    pub fn shape(&self) -> [usize; RANK] {
        const { assert!(RANK != ANY_RANK, "`shape` needs a fixed rank: `Out<T, 2>`") };
        self.view.shape()
    }

    /// Returns the number of elements.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.view.len
    }

    /// Returns true if there are no elements.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.view.len == 0
    }

    /// Returns the uninitialized elements in row-major order.
    #[must_use]
    #[inline]
    pub fn as_uninit(&mut self) -> &mut [MaybeUninit<T>] {
        #[cfg(debug_assertions)]
        if self.view.len > 0 {
            mark_accessed(self.view.data.cast_const().cast());
        }
        // SAFETY: `Typed` guarantees a non-null pointer to `len` aligned elements. Operands have separate memory,
        // except for exact aliases, which are rejected before the handler runs. `&mut self` keeps the view unique.
        unsafe { std::slice::from_raw_parts_mut(self.view.data.cast(), self.view.len) }
    }

    /// Leaves this result unwritten on purpose. Without this call, debug builds report a handler that succeeds
    /// without writing every nonempty result.
    ///
    /// The caller then receives the previous contents of the memory: possibly parts of other arrays, and for `bool`
    /// elements bytes other than 0 and 1. Call this method only if the caller does not read the result. `xla-ffi run`
    /// still reports unwritten results, unless it is called with `--allow-unwritten`.
    ///
    /// ```
    /// use xla_ffi::prelude::*;
    ///
    /// /// The first element that is not 0, and whether there is one; if `found` is false, the search is skipped.
    /// #[xla_ffi::handler]
    /// fn first(x: Buffer<i32>, mut y: Out<i32, 0>, mut found: Out<u8, 0>) -> Result<()> {
    ///     match x.iter().find(|x| **x != 0) {
    ///         Some(x) => {
    ///             y.fill(*x);
    ///             found.fill(1);
    ///         }
    ///         None => {
    ///             y.leave_unwritten();
    ///             found.fill(0);
    ///         }
    ///     }
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let call = embed::call::<first>("{}")?
    ///     .arg(Tensor::from_slice([2], &[0, 0])?)
    ///     .ret(Shape::new(DType::S32, [])?)
    ///     .ret(Shape::new(DType::U8, [])?);
    /// assert_eq!(call.run()?.rets[1].to_vec(), Some(vec![0_u8]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    #[inline]
    pub fn leave_unwritten(self) {
        #[cfg(debug_assertions)]
        mark_accessed(self.view.data.cast_const().cast());
    }

    /// Returns the uninitialized elements in rows along the last dimension, as
    /// [`Buffer::rows`](crate::Buffer::rows) does.
    #[inline]
    pub fn rows_uninit(&mut self) -> RowsMut<'_, MaybeUninit<T>> {
        let dims = self.view.dims;
        RowsMut::new(self.as_uninit(), dims)
    }

    /// Writes `value` to every element and returns the elements.
    pub fn fill(&mut self, value: T) -> &mut [T] {
        self.write_with(|_| value)
    }

    /// Writes `element(i)` to element `i`, in row-major order, and returns the elements.
    #[inline]
    pub fn write_with(&mut self, mut element: impl FnMut(usize) -> T) -> &mut [T] {
        let elements = self.as_uninit();
        for (index, slot) in elements.iter_mut().enumerate() {
            slot.write(element(index));
        }
        // SAFETY: the loop wrote every element.
        unsafe { uninit::written(elements) }
    }

    /// Copies all elements from `source`. To get the written slice, use [`write_with`](Self::write_with).
    ///
    /// # Errors
    /// [`ErrorCode::Internal`](crate::ErrorCode::Internal) if the numbers of elements differ.
    pub fn copy_from(&mut self, source: &[T]) -> Result<()> {
        if source.len() != self.view.len {
            return Err(miscounted(
                self.name,
                self.view.len,
                "elements",
                source.len(),
            ));
        }
        uninit::copy(self.as_uninit(), source);
        Ok(())
    }

    /// Writes the elements of an iterator. Surplus elements are not requested from the iterator.
    ///
    /// # Errors
    /// [`ErrorCode::Internal`](crate::ErrorCode::Internal) if the iterator yields fewer elements than the result
    /// has.
    pub fn write_iter(&mut self, elements: impl IntoIterator<Item = T>) -> Result<()> {
        // Requesting one more element could block, or consume an element that is meant for another result.
        let elements = elements.into_iter().take(self.view.len);
        let mut writer = self.writer();
        for element in elements {
            writer.push(element)?;
        }
        writer.finish().map(|_| ())
    }

    /// Returns a writer that writes the elements one by one and checks that all elements are
    /// written.
    ///
    /// ```
    /// use xla_ffi::prelude::*;
    ///
    /// /// The elements that are not 0, then zeros.
    /// #[xla_ffi::handler(shape = "n -> n")]
    /// fn compact(x: Buffer<i32, 1>, mut y: Out<i32, 1>) -> Result<()> {
    ///     let mut writer = y.writer();
    ///     for x in x.iter().filter(|x| **x != 0) {
    ///         writer.push(*x)?;
    ///     }
    ///     while !writer.is_full() {
    ///         writer.push(0)?;
    ///     }
    ///     writer.finish()?;
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let call = embed::call::<compact>("{}")?
    ///     .arg(Tensor::from_slice([3], &[0, 5, 0])?)
    ///     .ret(Shape::new(DType::S32, [3])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![5, 0, 0]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    pub fn writer(&mut self) -> Writer<'_, T> {
        let name = self.name;
        Writer::new(self.as_uninit(), name)
    }

    /// Returns the elements of the result as an initialized slice.
    ///
    /// ```
    /// use xla_ffi::prelude::*;
    ///
    /// #[xla_ffi::handler]
    /// fn ones(mut y: Out<f32>) -> Result<()> {
    ///     y.as_uninit().fill(std::mem::MaybeUninit::new(0.5));
    ///     // SAFETY: all of them were written.
    ///     let y = unsafe { y.assume_init_mut() };
    ///     y.iter_mut().for_each(|y| *y *= 2.0);
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<ones>("{}")?.ret(Shape::new(DType::F32, [2])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![1.0_f32, 1.0]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Safety
    /// Every element has been written through this value.
    pub unsafe fn assume_init_mut(&mut self) -> &mut [T] {
        // SAFETY: the caller guarantees that every element is written.
        unsafe { uninit::written(self.as_uninit()) }
    }
}

impl<'f, T: Element, const RANK: usize> Out<'f, T, RANK> {
    pub(crate) fn into_view(self) -> Typed<'f, T> {
        self.view
    }

    /// Creates a result from a view of its elements.
    ///
    /// # Safety
    /// `view` describes an operand of this type, and its data is valid for `'f`.
    pub(crate) unsafe fn from_view(view: Typed<'f, T>) -> Self {
        Self { view, name: "" }
    }
}

impl<T: Element, const RANK: usize> std::fmt::Debug for Out<'_, T, RANK> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Out")
            .field("dims", &self.view.dims)
            .finish_non_exhaustive()
    }
}

// SAFETY: the value accesses only the result at its place.

unsafe impl<'f, T: Element, const RANK: usize> Bind<'f> for Out<'f, T, RANK> {
    const PARAM: Param = Param::operand(Kind::Ret, DataTypes::only(T::DTYPE), rank(RANK));

    #[inline]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        Self::decode(frame.ret(at.ret)?, at.param.name)
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        problems.ret(frame, at, align_of::<T>());
    }
}

/// Writes a result element by element; created by [`Out::writer`].
///
/// ```
/// use xla_ffi::{element::Writer, prelude::*};
///
/// #[xla_ffi::handler]
/// fn fibonacci(mut y: Out<u64, 1>) -> Result<()> {
///     let (mut a, mut b) = (0u64, 1u64);
///     let mut writer: Writer<'_, u64> = y.writer();
///     while !writer.is_full() {
///         writer.push(a)?;
///         (a, b) = (b, a.wrapping_add(b));
///     }
///     writer.finish()?; // an error, had the loop ended early
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape};
/// let call = embed::call::<fibonacci>("{}")?.ret(Shape::new(DType::U64, [6])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![0_u64, 1, 1, 2, 3, 5]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer<'a, T> {
    elements: &'a mut [MaybeUninit<T>],
    // Invariant: the first `written` elements are initialized.
    written: usize,
    name: &'static str,
}

impl<'a, T: Element> Writer<'a, T> {
    pub(crate) fn new(elements: &'a mut [MaybeUninit<T>], name: &'static str) -> Self {
        Self {
            elements,
            written: 0,
            name,
        }
    }

    /// Writes the next element, in row-major order.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if all elements are already written.
    pub fn push(&mut self, element: T) -> Result<()> {
        let Some(slot) = self.elements.get_mut(self.written) else {
            let text = format!("all {} elements are written", self.elements.len());
            return Err(Error::out_of_range(about(self.name, &text)));
        };
        slot.write(element);
        self.written += 1;
        Ok(())
    }

    /// Returns true if all elements are written.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.written == self.elements.len()
    }

    /// Returns the elements if all elements are written.
    ///
    /// # Errors
    /// [`ErrorCode::Internal`](crate::ErrorCode::Internal) if some elements are not written.
    pub fn finish(self) -> Result<&'a mut [T]> {
        if !self.is_full() {
            return Err(miscounted(
                self.name,
                self.elements.len(),
                "elements",
                self.written,
            ));
        }
        // SAFETY: the writer is full, so all elements are initialized.
        Ok(unsafe { uninit::written(self.elements) })
    }
}
