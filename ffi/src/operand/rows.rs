//! Rows of an operand along its last dimension.

use std::iter::FusedIterator;
use std::slice::{ChunksExact, ChunksExactMut};

/// Returns the number of empty rows and the length of nonempty rows. If the rows are empty, the length is 1, because a
/// chunk size cannot be 0.
fn rows(dims: &[usize]) -> (usize, usize) {
    let Some((&length, leading)) = dims.split_last() else {
        return (0, 1);
    };
    if length > 0 {
        return (0, length);
    }
    let count = leading
        .iter()
        .fold(1_usize, |count, dim| count.saturating_mul(*dim));
    (count, 1)
}

macro_rules! rows {
    ($(#[$meta:meta])* $name:ident of $chunks:ident: $item:ty, $split:ident) => {
        $(#[$meta])*
        pub struct $name<'a, T> {
            rows: $chunks<'a, T>,
            // The number of remaining rows if the rows are empty. Invariant: 0 if the operand has
            // elements.
            empty: usize,
        }

        impl<'a, T> $name<'a, T> {
            /// Creates an iterator over the rows of an operand with the dimensions `dims`.
            #[inline]
            pub(crate) fn new(elements: $item, dims: &[usize]) -> Self {
                let (empty, length) = rows(dims);
                Self {
                    rows: elements.$split(length),
                    empty,
                }
            }
        }

        impl<'a, T> Iterator for $name<'a, T> {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<Self::Item> {
                match self.rows.next() {
                    Some(row) => Some(row),
                    None => self.nth_empty(0),
                }
            }

            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                let count = self.rows.len() + self.empty;
                (count, Some(count))
            }

            #[inline]
            fn nth(&mut self, n: usize) -> Option<Self::Item> {
                match self.rows.nth(n) {
                    Some(row) => Some(row),
                    None => self.nth_empty(n),
                }
            }
        }

        impl<T> DoubleEndedIterator for $name<'_, T> {
            #[inline]
            fn next_back(&mut self) -> Option<Self::Item> {
                match self.rows.next_back() {
                    Some(row) => Some(row),
                    None => self.nth_empty(0),
                }
            }
        }

        impl<T> ExactSizeIterator for $name<'_, T> {}

        impl<T> FusedIterator for $name<'_, T> {}

        impl<'a, T> $name<'a, T> {
            /// Skips `n` empty rows and returns the next empty row.
            #[inline]
            fn nth_empty(&mut self, n: usize) -> Option<$item> {
                let left = self.empty.checked_sub(n).filter(|left| *left > 0);
                self.empty = left.map_or(0, |left| left - 1);
                left.map(|_| Default::default())
            }
        }

        impl<T> std::fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("len", &self.len())
                    .finish_non_exhaustive()
            }
        }
    };
}

rows! {
    /// Iterator over the rows of [`Buffer::rows`](crate::Buffer::rows), from either end.
    ///
    /// ```
    /// use xla_ffi::prelude::*;
    ///
    /// /// Each row times the one that stands as far from the other end.
    /// #[xla_ffi::handler(shape = "n m -> n")]
    /// fn palindromic(x: Buffer<f32, 2>, mut y: Out<f32, 1>) -> Result<()> {
    ///     let rows: xla_ffi::element::Rows<f32> = x.rows();
    ///     let pairs = rows.clone().zip(rows.rev());
    ///     y.write_iter(pairs.map(|(row, other)| row.iter().zip(other).map(|(a, b)| a * b).sum()))
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let on = |dims: [i64; 2], x: &[f32]| {
    ///     let call = embed::call::<palindromic>("{}")?.arg(Tensor::from_slice(dims, x)?);
    ///     call.ret(Shape::new(DType::F32, [2])?).run()
    /// };
    /// assert_eq!(on([2, 2], &[1.0, 2.0, 3.0, 4.0])?.rets[0].to_vec(), Some(vec![11.0_f32, 11.0]));
    /// // Rows without elements are rows.
    /// assert_eq!(on([2, 0], &[])?.rets[0].to_vec(), Some(vec![0.0_f32, 0.0]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    Rows of ChunksExact: &'a [T], chunks_exact
}

impl<T> Clone for Rows<'_, T> {
    fn clone(&self) -> Self {
        Self {
            rows: self.rows.clone(),
            empty: self.empty,
        }
    }
}

rows! {
    /// Iterator over the rows of [`Out::rows_uninit`](crate::Out::rows_uninit), from either end.
    ///
    /// ```
    /// use std::mem::MaybeUninit;
    /// use xla_ffi::{prelude::*, element::RowsMut};
    ///
    /// fn count(rows: RowsMut<MaybeUninit<i32>>) {
    ///     for (row, number) in rows.zip(0..) {
    ///         row.iter_mut().for_each(|slot| {
    ///             slot.write(number);
    ///         });
    ///     }
    /// }
    ///
    /// #[xla_ffi::handler]
    /// fn numbered(mut y: Out<i32, 2>) {
    ///     count(y.rows_uninit());
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<numbered>("{}")?.ret(Shape::new(DType::S32, [2, 2])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![0, 0, 1, 1]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    RowsMut of ChunksExactMut: &'a mut [T], chunks_exact_mut
}
