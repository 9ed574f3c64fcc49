//! Operands kept beyond the handler's return.

use std::rc::Rc;

use crate::buffer::{AnyBuffer, Buffer};
use crate::element::Element;
use crate::frame::RawBuffer;
use crate::future::{Detach, Kept};
use crate::inout::InOut;
use crate::out::{AnyOut, Out};
use xla_ffi_sys::XLA_FFI_Buffer;

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

            unsafe fn detach(self) -> Self::Kept {
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

/// An untyped operand kept for later: the buffer struct and the dimensions that it points to.
struct AnyParts {
    // Invariant: a whole buffer struct; `dims` in it points into `_dims`.
    raw: Rc<XLA_FFI_Buffer>,
    _dims: Rc<[i64]>,
}

// SAFETY: as `Parts`; the structs are not written once they are made, and their counts stay 1.
unsafe impl Send for AnyParts {}

impl AnyParts {
    fn new(buffer: RawBuffer<'_>) -> Self {
        let dims: Rc<[i64]> = buffer.raw_dims().into();
        let raw = XLA_FFI_Buffer {
            struct_size: 48,
            extension_start: std::ptr::null_mut(),
            dtype: buffer.dtype(),
            data: buffer.data(),
            rank: buffer.rank(),
            dims: dims.as_ptr().cast_mut(),
        };
        Self {
            raw: Rc::new(raw),
            _dims: dims,
        }
    }

    fn at(&self) -> RawBuffer<'_> {
        // SAFETY: the invariant; both live as long as `self`.
        let raw = unsafe { RawBuffer::new(&raw const *self.raw) };
        raw.expect("a whole struct is not refused")
    }
}

macro_rules! detach_any {
    ($name:ident $kept:ident) => {
        #[doc = concat!("A [`", stringify!($name), "`] kept until the call is completed.")]
        pub struct $kept(AnyParts);

        impl std::fmt::Debug for $kept {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($kept)).finish_non_exhaustive()
            }
        }

        // SAFETY: the data pointer is all that is kept of the host's memory.
        unsafe impl Detach for $name<'_> {
            type Kept = $kept;

            unsafe fn detach(self) -> $kept {
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

detach_any!(AnyBuffer KeptAnyBuffer);
detach_any!(AnyOut KeptAnyOut);

macro_rules! tuples {
    ($($name:ident)*) => {
        // SAFETY: each part keeps its promise.
        unsafe impl<$($name: Detach),*> Detach for ($($name,)*) {
            type Kept = ($($name::Kept,)*);

            #[expect(non_snake_case, reason = "variables are called as their types")]
            unsafe fn detach(self) -> Self::Kept {
                let ($($name,)*) = self;
                // SAFETY: the caller's promise goes for each part.
                ($(unsafe { $name.detach() },)*)
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

    unsafe fn detach(self) {}
}

impl Kept for () {
    type At<'a> = ();

    fn at(&mut self) {}
}
