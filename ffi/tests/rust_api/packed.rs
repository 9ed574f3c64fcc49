//! Tests elements that share bytes, and booleans.

use crate::operands::any;
use crate::{call, failed, on, refused, shape};
use xla_ffi::{
    Packed, PackedOut, Pred,
    element::{S4, U2},
    prelude::*,
};
use xla_ffi_runtime::{DType, ErrorCode, Revision, Shape, Tensor};

#[xla_ffi::handler]
fn invert(x: Buffer<Pred>, mut y: Out<Pred>) -> Result<()> {
    y.write_iter(x.iter().map(|x| Pred::from(!x.get())))
}

/// A byte other than 0 and 1 is true and does not cause undefined behaviour.
#[test]
fn booleans_are_bytes() {
    let of = || shape(DType::Pred, &[4]);
    let x = Tensor::from_bytes(of(), &[0, 1, 2, 255]).unwrap();
    let outcome = call::<invert>("{}").arg(x).ret(of()).run().unwrap();
    assert_eq!(outcome.rets[0].bytes(), [1, 0, 0, 0]);
}

#[xla_ffi::handler(shape = "n -> n")]
fn negate_packed(x: Packed<S4, 1>, mut y: PackedOut<S4, 1>) -> Result<()> {
    assert_eq!(x.get(x.len()), None);
    y.write_with(|i| x.get(i).map_or(0, |v| -v));
    Ok(())
}

#[xla_ffi::handler(shape = "n -> n")]
fn count_up(mut y: PackedOut<U2, 1>, x: AnyBuffer) -> Result<()> {
    let x = x.packed::<U2, 1>()?;
    assert!(!x.is_empty() && y.len() == x.len() && x.dims() == y.dims());
    y.write_with(|i| x.get(i).map_or(0, |v| v + 1));
    Ok(())
}

#[test]
fn packed_elements_begin_in_the_low_bits() {
    let of = |dtype| Shape::new(dtype, [3]).unwrap();
    let run = |call: xla_ffi_runtime::Call, dtype, bytes: &[u8]| {
        let x = Tensor::from_bytes(of(dtype), bytes).unwrap();
        call.arg(x).ret(of(dtype)).run().unwrap().rets[0]
            .bytes()
            .to_vec()
    };
    // The elements 1, -2, 3 become -1, 2, -3.
    let negated = run(call::<negate_packed>("{}"), DType::S4, &[0xE1, 0x03]);
    assert_eq!(negated, [0x2F, 0x0D]);
    // The elements 0, 1, 3 become 1, 2, 0, because the last element wraps around.
    let counted = run(call::<count_up>("{}"), DType::U2, &[0b11_01_00]);
    assert_eq!(counted, [0b00_10_01]);
    let x = Tensor::zeros(of(DType::U4)).unwrap();
    assert_eq!(
        refused(call::<negate_packed>("{}").arg(x).ret(of(DType::U4))),
        "negate_packed (execute): 2 problems\n  argument `x`: expected S4[?], got U4[3]\n  result `y`: expected S4[?], got U4[3]"
    );
}

/// Hosts of r3 and r4 have no numbers for packed types. The element size is therefore unknown, and
/// the bytes must not be read.
#[test]
fn packed_types_without_a_name_are_refused() {
    let of = || shape(DType::S4, &[3]);
    for revision in [Revision::R3, Revision::R4] {
        let x = Tensor::zeros(of()).unwrap();
        let call = on::<any>(revision, "{}")
            .arg(x.clone())
            .ret(of())
            .ret(shape(DType::U64, &[4]));
        let (code, text) = failed(call);
        assert_eq!(code, ErrorCode::Unimplemented);
        let lack = "element types of less than a byte: the first jaxlib that has it is 0.6.0; this \
                    host speaks XLA FFI 0.1";
        let head = format!("any (execute): 2 problems\n  argument `x`: {lack}");
        assert!(text.starts_with(&head), "{text}");
        let (code, text) = failed(on::<negate_packed>(revision, "{}").arg(x).ret(of()));
        assert_eq!(code, ErrorCode::Unimplemented, "{text}");
    }
}

xla_ffi::library! {
    name = "packed";
    invert, negate_packed, count_up,
}
