//! Results filled element by element.

use std::mem::MaybeUninit;

use crate::error::{Error, Result};
use crate::frame::element::Element;
use crate::frame::raw_buffer::uninit;

/// Fills a result element by element.
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn fibonacci(mut y: Out<u64, 1>) -> Result<()> {
///     let (mut a, mut b) = (0u64, 1u64);
///     let mut writer = y.writer();
///     while !writer.is_full() {
///         writer.push(a)?;
///         (a, b) = (b, a.wrapping_add(b));
///     }
///     writer.finish()?; // an error, had the loop ended early
///     Ok(())
/// }
///
/// # use xla_ffi::internal::{self, DType, Shape};
/// let call = internal::call::<fibonacci>("{}")?.ret(Shape::new(DType::U64, [6])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![0_u64, 1, 1, 2, 3, 5]));
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer<'a, T> {
    elements: &'a mut [MaybeUninit<T>],
    // Invariant: the first `written` elements are initialised.
    written: usize,
}

impl<'a, T: Element> Writer<'a, T> {
    pub(crate) fn new(elements: &'a mut [MaybeUninit<T>]) -> Self {
        Self {
            elements,
            written: 0,
        }
    }

    /// Writes the next element.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) when all are written.
    pub fn push(&mut self, element: T) -> Result<()> {
        let Some(slot) = self.elements.get_mut(self.written) else {
            return Err(Error::out_of_range(format!(
                "all {} elements of the result are written",
                self.elements.len()
            )));
        };
        slot.write(element);
        self.written += 1;
        Ok(())
    }

    /// Whether all elements are written.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.written == self.elements.len()
    }

    /// The elements, if all of them were written.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) when some were not.
    pub fn finish(self) -> Result<&'a mut [T]> {
        if !self.is_full() {
            return Err(Error::invalid_argument(format!(
                "{} of {} elements of the result were written",
                self.written,
                self.elements.len()
            )));
        }
        // SAFETY: `written` says that all elements are initialised.
        Ok(unsafe { uninit::written(self.elements) })
    }
}
