//! Tests operands of every kind.

use crate::{array, call, every_dtype, failed, first, on, refused, ret, shape, vector};
use half::{bf16, f16};
use num_complex::Complex;
use xla_ffi::{
    OneOf, OneOfOut, Pred,
    element::{F8E4M3FN, F8E8M0FNU},
    prelude::*,
};
use xla_ffi_runtime::{DType, ErrorCode, Revision, Shape, Tensor};

#[xla_ffi::handler]
pub(crate) fn double(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    y.write_with(|i| 2.0 * x[i]);
    Ok(())
}

/// Covers XLA's test BufferArgument, and all methods that fill a result.
#[test]
fn typed_buffers() {
    let run = |dims: &[i64], elements: &[f32]| {
        first::<f32>(
            call::<double>("{}")
                .arg(array(dims, elements))
                .ret(shape(DType::F32, dims)),
        )
    };
    assert_eq!(run(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(run(&[], &[1.5]), [3.0]);
    assert_eq!(run(&[0, 3], &[]), [0.0; 0]);
    for revision in Revision::ALL {
        let call = on::<double>(revision, "{}")
            .arg(vector(&[1.0_f32]))
            .ret(shape(DType::F32, &[1]));
        assert_eq!(first::<f32>(call), [2.0], "{revision}");
    }
}

#[xla_ffi::handler]
fn filled(
    mut a: Out<i32>,
    mut b: Out<i32>,
    mut c: Out<i32>,
    mut d: Out<i32>,
    mut e: Out<i32>,
) -> Result<()> {
    a.fill(7);
    b.write_iter(0..)?;
    let mut writer = c.writer();
    while !writer.is_full() {
        writer.push(3)?;
    }
    assert!(writer.push(4).is_err());
    writer.finish()?[0] = 9;
    for row in d.rows_uninit() {
        for (i, slot) in row.iter_mut().enumerate() {
            slot.write(i as i32);
        }
    }
    e.as_uninit().iter_mut().for_each(|slot| {
        slot.write(5);
    });
    assert!(!e.is_empty() && e.len() == 4 && e.dims() == [2, 2]);
    Ok(())
}

#[xla_ffi::handler]
fn half_written(mut y: Out<i32>, how: &str) -> Result<()> {
    match how {
        "copy" => y.copy_from(&[1, 2]),
        "iter" => y.write_iter([1, 2]),
        _ => {
            let mut writer = y.writer();
            writer.push(1)?;
            writer.finish().map(|_| ())
        }
    }
}

#[test]
fn results_are_written_or_not() {
    let square = || shape(DType::S32, &[2, 2]);
    let call = (0..5).fold(call::<filled>("{}"), |call, _| call.ret(square()));
    let outcome = call.run().unwrap();
    assert_eq!(ret::<i32>(&outcome, 0), [7; 4]);
    assert_eq!(ret::<i32>(&outcome, 1), [0, 1, 2, 3]);
    assert_eq!(ret::<i32>(&outcome, 2), [9, 3, 3, 3]);
    assert_eq!(ret::<i32>(&outcome, 3), [0, 1, 0, 1]);
    assert_eq!(ret::<i32>(&outcome, 4), [5; 4]);
    for (how, text) in [
        ("copy", "3 elements expected, got 2"),
        ("iter", "3 elements expected, got 2"),
        ("writer", "3 elements expected, got 1"),
    ] {
        let call = crate::call::<half_written>(&format!("{{how = \"{how}\"}}"))
            .ret(shape(DType::S32, &[3]));
        let text = format!("half_written (execute): result `y`: {text}");
        assert_eq!(failed(call), (ErrorCode::Internal, text));
    }
}

/// Returns the number of rows, half of them from each end, and the number of their elements.
#[xla_ffi::handler]
fn rows(x: Buffer<i32>, mut y: Out<i32>, mut told: Out<u64, 1>) -> Result<()> {
    let (mut rows, mut own) = (x.rows(), y.rows_uninit());
    let count = rows.len();
    assert_eq!(own.len(), count);
    let mut elements = 0;
    let mut take = |row: Option<&[i32]>, own: Option<&mut [std::mem::MaybeUninit<i32>]>| {
        let (Some(row), Some(own)) = (row, own) else {
            panic!("a row is missing");
        };
        assert_eq!(row.len(), own.len());
        elements += row.len() as u64;
        for (x, y) in row.iter().zip(own) {
            y.write(*x);
        }
    };
    for index in 0..count {
        match index % 2 {
            0 => take(rows.next(), own.next()),
            _ => take(rows.next_back(), own.next_back()),
        }
    }
    assert!(rows.next().is_none() && own.next_back().is_none());
    told.copy_from(&[count as u64, elements])
}

#[test]
fn rows_are_as_many_as_the_shape_has() {
    for (dims, count) in [
        (&[][..], 1),
        (&[4], 1),
        (&[0], 1),
        (&[2, 3], 2),
        (&[0, 3], 0),
        (&[3, 0], 3),
        (&[2, 5, 0], 10),
        (&[2, 0, 3], 0),
        (&[2, 0, 0], 0),
        (&[3, 2, 2], 6),
    ] {
        let elements: Vec<i32> = (0..dims.iter().product::<i64>() as i32).collect();
        let call = call::<rows>("{}").arg(array(dims, &elements));
        let call = call
            .ret(shape(DType::S32, dims))
            .ret(shape(DType::U64, &[2]));
        let outcome = call.run().unwrap();
        assert_eq!(ret::<i32>(&outcome, 0), elements);
        assert_eq!(
            ret::<u64>(&outcome, 1),
            [count, elements.len() as u64],
            "{dims:?}"
        );
    }
}

#[xla_ffi::handler]
pub(crate) fn any(x: AnyBuffer, y: AnyOut, mut told: Out<u64, 1>) -> Result<()> {
    told.copy_from(&[
        u64::from(x.dtype().0),
        x.dims().len() as u64,
        x.element_count() as u64,
        x.byte_size() as u64,
    ])?;
    assert_eq!(x.bytes().len(), x.byte_size());
    assert_eq!(y.byte_size(), x.byte_size());
    assert_eq!(y.element_count(), x.element_count());
    let mut y = y;
    assert!(y.copy_from_bytes(&[x.bytes(), &[0]].concat()).is_err());
    y.copy_from_bytes(x.bytes())
}

#[test]
fn operands_of_any_type() {
    let of = || shape(DType::BF16, &[2, 1]);
    let x = Tensor::from_bytes(of(), &[1, 2, 3, 4]).unwrap();
    let call = call::<any>("{}").arg(x).ret(of());
    let outcome = call.ret(shape(DType::U64, &[4])).run().unwrap();
    assert_eq!(outcome.rets[0].bytes(), [1, 2, 3, 4]);
    let told = [u64::from(DType::BF16.raw().0), 2, 2, 4];
    assert_eq!(ret::<u64>(&outcome, 1), told);
}

macro_rules! copies {
    ($($name:ident $ty:ty;)*) => {
        $(
            #[xla_ffi::handler]
            fn $name(x: Buffer<$ty>, mut y: Out<$ty>) -> Result<()> {
                y.copy_from(&x)
            }
        )*

        fn typed_copies() -> Vec<(DType, xla_ffi_runtime::Call)> {
            let dtype = |raw| DType::from_raw(raw).unwrap();
            vec![$((dtype(<$ty as xla_ffi::Element>::DTYPE), call::<$name>("{}"))),*]
        }
    };
}

copies! {
    copy_pred Pred; copy_s8 i8; copy_s16 i16; copy_s32 i32; copy_s64 i64; copy_u8 u8; copy_u16 u16;
    copy_u32 u32; copy_u64 u64; copy_f16 f16; copy_bf16 bf16; copy_f32 f32; copy_f64 f64;
    copy_c64 Complex<f32>; copy_c128 Complex<f64>; copy_f8e5m2 xla_ffi::element::F8E5M2;
    copy_f8e3m4 xla_ffi::element::F8E3M4; copy_f8e4m3 xla_ffi::element::F8E4M3; copy_f8e4m3fn F8E4M3FN;
    copy_f8e4m3b11fnuz xla_ffi::element::F8E4M3B11FNUZ; copy_f8e5m2fnuz xla_ffi::element::F8E5M2FNUZ;
    copy_f8e4m3fnuz xla_ffi::element::F8E4M3FNUZ; copy_f8e8m0fnu F8E8M0FNU;
}

/// Covers XLA's test ComplexBufferArgument, and all other types: each Rust type accepts only its
/// own element type.
#[test]
fn every_element_type_by_its_rust_type() {
    let copies = typed_copies();
    let plain = every_dtype().filter(|d| *d != DType::Token && d.bits() >= 8);
    assert_eq!(copies.len(), plain.count());
    for (dtype, call) in copies {
        let of = |dtype| Shape::new(dtype, [2]).unwrap();
        let bytes: Vec<u8> = (0..2 * dtype.bits() / 8).map(|b| b as u8 + 1).collect();
        let tensor = Tensor::from_bytes(of(dtype), &bytes).unwrap();
        let outcome = call.arg(tensor).ret(of(dtype)).run().unwrap();
        assert_eq!(outcome.rets[0].bytes(), bytes, "{dtype:?}");
    }
    for (dtype, call) in typed_copies() {
        let other = if dtype == DType::S8 {
            DType::U8
        } else {
            DType::S8
        };
        let wrong = Tensor::zeros(Shape::new(other, [2]).unwrap()).unwrap();
        let text = refused(call.arg(wrong).ret(Shape::new(dtype, [2]).unwrap()));
        assert!(text.contains("argument `x`: expected"), "{text}");
    }
    // An error suggests a cast only if a complex number has room for the value.
    for (from, is_told) in [
        (DType::F32, true),
        (DType::F64, false),
        (DType::C128, false),
    ] {
        let x = Tensor::zeros(Shape::new(from, [2]).unwrap()).unwrap();
        let text = refused(call::<copy_c64>("{}").arg(x).ret(shape(DType::C64, &[2])));
        assert_eq!(text.contains("cast it"), is_told, "{from:?}: {text}");
    }
}

#[xla_ffi::handler(shape = "token, ... -> token, ...")]
fn ordered(_before: Token, x: Buffer<f32>, _after: TokenOut, mut y: Out<f32>) -> Result<()> {
    y.copy_from(&x)
}

/// Covers XLA's test TokenArgument: tokens as arguments and results.
#[test]
fn tokens() {
    let token = || shape(DType::Token, &[]);
    let outcome = call::<ordered>("{}")
        .arg(Tensor::zeros(token()).unwrap())
        .arg(vector(&[1.0_f32]))
        .ret(token())
        .ret(shape(DType::F32, &[1]))
        .run()
        .unwrap();
    assert_eq!(ret::<f32>(&outcome, 1), [1.0]);
    let text = refused(
        call::<ordered>("{}")
            .arg(vector(&[0.0_f32]))
            .arg(vector(&[1.0_f32]))
            .ret(token())
            .ret(shape(DType::F32, &[1])),
    );
    assert_eq!(
        text,
        "ordered (execute): argument `before`: expected TOKEN[], got F32[1]"
    );
}

#[xla_ffi::handler]
fn one_of(x: OneOf<(f32, f64, bf16), 1>, y: OneOfOut<(f32, f64), 1>) -> Result<()> {
    let values: Vec<f64> = match (x.get::<f32>(), x.get::<f64>()) {
        (Some(x), _) => x.iter().map(|x| f64::from(*x)).collect(),
        (_, Some(x)) => x.to_vec(),
        _ => x.typed::<bf16, 1>()?.iter().map(|x| x.to_f64()).collect(),
    };
    if y.dtype() == xla_ffi::DataType::F32 {
        y.typed::<f32>()?
            .write_iter(values.iter().map(|x| *x as f32))?;
    } else {
        y.into_any().typed::<f64, 1>()?.write_iter(values)?;
    }
    Ok(())
}

/// Covers XLA's tests Match and Verify: operands with one of several element types and ranks.
#[test]
fn one_of_several_element_types() {
    let half =
        Tensor::from_bytes(shape(DType::BF16, &[1]), &bf16::from_f32(1.5).to_le_bytes()).unwrap();
    for x in [vector(&[1.5_f32]), vector(&[1.5_f64]), half] {
        let call = call::<one_of>("{}").arg(x).ret(shape(DType::F64, &[1]));
        assert_eq!(first::<f64>(call), [1.5]);
    }
    let call_with = |x, y| call::<one_of>("{}").arg(x).ret(y);
    assert_eq!(
        first::<f32>(call_with(vector(&[2.5_f64]), shape(DType::F32, &[1]))),
        [2.5]
    );
    assert_eq!(
        refused(call_with(vector(&[1_i32]), shape(DType::BF16, &[1]))),
        "one_of (execute): 2 problems\n  argument `x`: expected F32[?] or F64[?] or BF16[?], got S32[1]; cast it: x.astype(np.float32)\n  result `y`: expected F32[?] or F64[?], got BF16[1]; declare it as np.float32"
    );
    assert_eq!(
        refused(call_with(array(&[], &[1.0_f32]), shape(DType::F32, &[1]))),
        "one_of (execute): argument `x`: expected F32[?] or F64[?] or BF16[?], got F32[]"
    );
}

#[xla_ffi::handler(shape = "n k, k m -> n m")]
fn product(a: Buffer<f64, 2>, b: Buffer<f64, 2>, mut y: Out<f64, 2>) -> Result<()> {
    let product = a.view()?.dot(&b.view()?);
    assert_eq!(a.view_dyn()?.shape(), a.dims());
    y.view_uninit()?.zip_mut_with(&product, |y, x| {
        y.write(*x);
    });
    assert_eq!(y.view_uninit_dyn()?.ndim(), 2);
    Ok(())
}

#[xla_ffi::handler]
fn zero_diagonal(mut x: InOut<i32, 2>) -> Result<()> {
    x.view_mut()?.diag_mut().fill(0);
    x.view_mut_dyn()?.iter_mut().for_each(|x| *x *= 2);
    Ok(())
}

#[test]
fn operands_as_ndarray_views() {
    let call = call::<product>("{}")
        .arg(array(&[1, 2], &[1.0, 2.0]))
        .arg(array(&[2, 1], &[3.0, 4.0]))
        .ret(shape(DType::F64, &[1, 1]));
    assert_eq!(first::<f64>(call), [11.0]);
    let x = array(&[2, 2], &[1, 2, 3, 4]);
    let outcome = crate::call::<zero_diagonal>("{}")
        .arg(x)
        .ret_alias(0)
        .run()
        .unwrap();
    assert_eq!(ret::<i32>(&outcome, 0), [0, 4, 6, 0]);
}

xla_ffi::library! {
    name = "operands";
    double, filled, half_written, rows, ordered, one_of, product, zero_diagonal,
    copy_pred, copy_s8, copy_s16, copy_s32, copy_s64, copy_u8, copy_u16, copy_u32, copy_u64, copy_f16,
    copy_bf16, copy_f32, copy_f64, copy_c64, copy_c128, copy_f8e5m2, copy_f8e3m4, copy_f8e4m3,
    copy_f8e4m3fn, copy_f8e4m3b11fnuz, copy_f8e5m2fnuz, copy_f8e4m3fnuz, copy_f8e8m0fnu,
}
