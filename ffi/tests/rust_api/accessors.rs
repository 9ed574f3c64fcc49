//! Tests accessors that the other tests do not need, and the `Debug` output of parameters.

use crate::{array, call, ret, shape, vector};
use xla_ffi::element::{S2, U4};
use xla_ffi::{ErrorCode, OneOf, OneOfOut, prelude::*};
use xla_ffi_runtime::{DType, Tensor};

#[xla_ffi::handler]
fn shown(
    x: Buffer<f32, 2>,
    any: AnyBuffer,
    one: OneOf<(i32, f32), 1>,
    rest: RemainingArgs,
    mut y: Out<i32, 1>,
    mut any_out: AnyOut,
    one_out: OneOfOut<(i32, f32), 1>,
    mut rets: RemainingRets,
    options: Dictionary,
) -> Result<()> {
    assert_eq!(
        format!("{x:?} {any:?} {:?}", one.clone()),
        "Buffer { dims: [1, 2], elements: [1.0, 2.0] } AnyBuffer { dtype: \"F32\", dims: [1] } \
         AnyBuffer { dtype: \"S32\", dims: [1] }"
    );
    assert_eq!(format!("{:?}", x.clone().rows()), "Rows { len: 1, .. }");
    assert_eq!(
        format!("{y:?} {any_out:?} {one_out:?} {rets:?} {rest:?}"),
        "Out { dims: [3], .. } AnyOut { dtype: \"F32\", dims: [1], .. } \
         AnyOut { dtype: \"S32\", dims: [1], .. } RemainingRets { len: 2, .. } \
         [AnyBuffer { dtype: \"U4\", dims: [2] }]"
    );
    assert_eq!(y.rows_uninit().nth(0).map(|row| row.len()), Some(3));
    assert_eq!(format!("{:?}", y.rows_uninit()), "RowsMut { len: 1, .. }");
    assert_eq!(x.rows().nth(1), None);
    assert_eq!(
        rest.any(1).unwrap_err().message(),
        "remaining argument 1 of 1"
    );
    for x in &rest {
        let packed = x.packed::<U4, 1>()?;
        assert!(!packed.is_empty() && packed.get(0) == Some(5));
        assert!(x.packed::<U4, 2>().is_err() && x.packed::<S2, 1>().is_err());
    }
    assert_eq!(rest.into_iter().size_hint(), (1, Some(1)));
    any_out.fill_bytes(0);
    let mistyped = any_out.typed::<f64, 1>().unwrap_err();
    assert_eq!(mistyped.code(), ErrorCode::InvalidArgument);
    one_out.leave_unwritten();
    assert!(rets.take_any(2).is_err());
    let mut packed = rets.take_any(0)?.packed::<U4, 1>()?;
    assert!(!packed.is_empty() && packed.bytes_uninit().len() == 1);
    packed.write_with(|_| 6);
    let mut last = rets.take_any(1)?;
    last.fill_bytes(0);
    assert!(last.packed::<U4, 1>().is_err());
    // SAFETY: the next line writes all elements.
    unsafe { y.assume_init_mut() }.copy_from_slice(&[1, 2, 3]);
    assert_eq!(format!("{options:?}").matches("k").count(), 40);
    // Hosts sort attributes by the bytes of their names. Many attributes are found by bisection.
    for key in 0..40 {
        assert_eq!(options.get::<i64>(&format!("k{key}"))?, key);
    }
    let mistyped = options.get_optional::<&str>("k0").unwrap_err();
    assert_eq!(mistyped.code(), ErrorCode::InvalidArgument);
    assert!(!options.contains("k") && !options.contains("k40") && !options.contains("l"));
    Ok(())
}

#[test]
fn accessors_and_debug_output() {
    let entries: Vec<_> = (0..40).map(|key| format!("k{key} = {key} : i64")).collect();
    let attributes = format!("{{options = {{{}}}}}", entries.join(", "));
    let packed = || shape(DType::U4, &[2]);
    let call = call::<shown>(&attributes)
        .arg(array(&[1, 2], &[1.0_f32, 2.0]))
        .arg(vector(&[3.0_f32]))
        .arg(vector(&[4_i32]))
        .arg(Tensor::from_bytes(packed(), &[0x05]).unwrap())
        .ret(shape(DType::S32, &[3]))
        .ret(shape(DType::F32, &[1]))
        .ret(shape(DType::S32, &[1]))
        .ret(packed())
        .ret(shape(DType::F32, &[1]));
    let outcome = call.run().unwrap();
    assert_eq!(ret::<i32>(&outcome, 0), [1, 2, 3]);
    assert_eq!(outcome.rets[3].bytes(), [0x66]);
}

xla_ffi::library! {
    name = "accessors";
    shown,
}
