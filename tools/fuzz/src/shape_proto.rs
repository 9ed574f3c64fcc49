//! `xla::ShapeProto` as opaque bytes: Rust and C give the same shape, or both refuse.
//!
//! Unsafe: a function of C is called.

use std::ffi::c_void;
use xla_ffi_legacy::ShapeProto;

unsafe extern "C" {
    /// Writes a shape as numbers, at most `room` of them, and gives how many there are; `usize::MAX` where the bytes are no
    /// shape.
    fn fuzz_shape_proto(bytes: *const c_void, size: usize, numbers: *mut i64, room: usize)
    -> usize;
}

pub(crate) fn attack(input: &[u8]) {
    let mut wanted = vec![];
    let parsed = ShapeProto::parse(input);
    let is_shape = match &parsed {
        Ok(shape) => {
            flatten(shape, &mut wanted);
            true
        }
        Err(error) => {
            assert!(
                error.to_string().contains("no xla::ShapeProto: "),
                "{error}"
            );
            false
        }
    };
    let mut got = vec![0; wanted.len()];
    // SAFETY: so many bytes, and room for so many numbers.
    let count = unsafe {
        fuzz_shape_proto(
            input.as_ptr().cast(),
            input.len(),
            got.as_mut_ptr(),
            got.len(),
        )
    };
    let expected = if is_shape { wanted.len() } else { usize::MAX };
    assert_eq!(count, expected, "{parsed:?}");
    assert_eq!(got, wanted, "{parsed:?}");
}

/// A shape as numbers: each node's kind, then how many there are of what follows, then those.
fn flatten(shape: &ShapeProto, to: &mut Vec<i64>) {
    let mut list = |values: &[i64]| {
        to.push(i64::try_from(values.len()).expect("few"));
        to.extend(values);
    };
    match shape {
        ShapeProto::Array {
            dtype,
            dims,
            minor_to_major,
        } => {
            list(&[i64::from(dtype.0)]);
            list(dims);
            list(minor_to_major);
        }
        ShapeProto::Tuple(elements) => {
            list(&[]);
            to.push(i64::try_from(elements.len()).expect("few"));
            elements.iter().for_each(|element| flatten(element, to));
        }
    }
}
