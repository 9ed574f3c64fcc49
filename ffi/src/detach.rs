//! Operands kept beyond the handler's return.

use crate::buffer::Buffer;
use crate::element::Element;
use crate::future::Detach;
use crate::inout::InOut;
use crate::out::Out;

/// The parts of a typed operand: where the data lies, its dimensions (copied), its length.
#[derive(Debug)]
pub struct Kept<T> {
    data: *mut T,
    dims: Box<[usize]>,
    len: usize,
}

// SAFETY: the data is a slice of numbers that this value alone hands out; it lives until the call
// is completed, which consumes this value first.
unsafe impl<T: Send + Sync> Send for Kept<T> {}

macro_rules! detach {
    ($name:ident) => {
        // SAFETY: the data pointer is all that is kept of the host's memory.
        unsafe impl<T: Element, const RANK: usize> Detach for $name<'_, T, RANK> {
            type At<'a> = $name<'a, T, RANK>;
            type Kept = Kept<T>;

            fn detach(self) -> Kept<T> {
                let (data, dims, len) = self.into_parts();
                Kept {
                    data,
                    dims: dims.into(),
                    len,
                }
            }

            fn at<'a>(kept: &'a mut Kept<T>) -> Self::At<'a> {
                // SAFETY: the parts of an operand of this kind, whose data outlives the borrow.
                unsafe { $name::from_parts(kept.data, &kept.dims, kept.len) }
            }
        }
    };
}

detach!(Buffer);
detach!(Out);
detach!(InOut);

macro_rules! tuples {
    ($($name:ident)*) => {
        // SAFETY: each part keeps its promise.
        unsafe impl<$($name: Detach),*> Detach for ($($name,)*) {
            type At<'a> = ($($name::At<'a>,)*);
            type Kept = ($($name::Kept,)*);

            #[expect(non_snake_case, reason = "variables are called as their types")]
            fn detach(self) -> Self::Kept {
                let ($($name,)*) = self;
                ($($name.detach(),)*)
            }

            #[expect(non_snake_case, reason = "variables are called as their types")]
            fn at<'a>(kept: &'a mut Self::Kept) -> Self::At<'a> {
                let ($($name,)*) = kept;
                ($($name::at($name),)*)
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);

// SAFETY: there is nothing to keep.
unsafe impl Detach for () {
    type At<'a> = ();
    type Kept = ();

    fn detach(self) {}

    fn at<'a>(_: &'a mut ()) {}
}
