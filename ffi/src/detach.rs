//! Operands kept beyond the handler's return.

use crate::buffer::Buffer;
use crate::element::Element;
use crate::future::{Detach, Kept};
use crate::inout::InOut;
use crate::out::Out;

/// The parts of a typed operand: where the data lies, its dimensions (copied), its length.
#[derive(Debug)]
struct Parts<T> {
    data: *mut T,
    dims: Box<[usize]>,
    len: usize,
}

// SAFETY: the data is a slice of numbers that this value alone hands out; it lives until the call
// is completed, which consumes this value first.
unsafe impl<T: Send + Sync> Send for Parts<T> {}

macro_rules! detach {
    ($name:ident $kept:ident) => {
        #[doc = concat!("A [`", stringify!($name), "`] kept until the call is completed.")]
        #[derive(Debug)]
        pub struct $kept<T, const RANK: usize>(Parts<T>);

        // SAFETY: the data pointer is all that is kept of the host's memory.
        unsafe impl<T: Element, const RANK: usize> Detach for $name<'_, T, RANK> {
            type Kept = $kept<T, RANK>;

            fn detach(self) -> Self::Kept {
                let (data, dims, len) = self.into_parts();
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
                let Parts { data, dims, len } = &self.0;
                // SAFETY: the parts of an operand of this kind; its data outlives this value.
                unsafe { $name::from_parts(*data, dims, *len) }
            }
        }
    };
}

detach!(Buffer KeptBuffer);
detach!(Out KeptOut);
detach!(InOut KeptInOut);

macro_rules! tuples {
    ($($name:ident)*) => {
        // SAFETY: each part keeps its promise.
        unsafe impl<$($name: Detach),*> Detach for ($($name,)*) {
            type Kept = ($($name::Kept,)*);

            #[expect(non_snake_case, reason = "variables are called as their types")]
            fn detach(self) -> Self::Kept {
                let ($($name,)*) = self;
                ($($name.detach(),)*)
            }
        }

        impl<$($name: Kept),*> Kept for ($($name,)*) {
            type At<'a> = ($($name::At<'a>,)*);

            #[expect(non_snake_case, reason = "variables are called as their types")]
            fn at(&mut self) -> Self::At<'_> {
                let ($($name,)*) = self;
                ($($name.at(),)*)
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
    type Kept = ();

    fn detach(self) {}
}

impl Kept for () {
    type At<'a> = ();

    fn at(&mut self) {}
}
