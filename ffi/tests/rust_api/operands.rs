//! Operands of every kind.

use crate::kit::{array, call, every_dtype, failed, first, on, refused, ret, shape, vector};
use half::{bf16, f16};
use num_complex::Complex;
use xla_ffi::{
    F8E4M3FN, F8E8M0FNU, OneOf, OneOfOut, Packed, PackedOut, Pred, S4, U2, bit_width, prelude::*,
};
use xla_ffi_runtime::{Code, DType, Revision, Shape, Tensor};

#[xla_ffi::handler]
fn double(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    y.write_with(|i| 2.0 * x[i]);
    Ok(())
}

/// BufferArgument, and results through every way of filling them.
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
fn ranked(
    a: Buffer<i32, 0>,
    b: Buffer<i32, 1>,
    c: Buffer<i32, 2>,
    d: Buffer<i32, 3>,
    e: Buffer<i32, 4>,
    f: Buffer<i32, 5>,
    mut y: Out<u64, 1>,
) -> Result<()> {
    let [] = a.shape();
    let [n] = b.shape();
    let [_, m] = c.shape();
    let [.., o] = d.shape();
    let [.., p] = e.shape();
    let [.., q] = f.shape();
    let all = [n, m, o, p, q].map(|n| n as u64);
    y.copy_from(&all)?;
    Ok(())
}

#[test]
fn ranks_from_0_to_5() {
    let ones = |dims: &[i64]| array(dims, &vec![1_i32; dims.iter().product::<i64>() as usize]);
    let call = call::<ranked>("{}")
        .args([ones(&[]), ones(&[2]), ones(&[1, 3]), ones(&[1, 1, 4])])
        .args([ones(&[1, 1, 1, 5]), ones(&[1, 1, 1, 1, 6])])
        .ret(shape(DType::U64, &[5]));
    assert_eq!(first::<u64>(call), [2, 3, 4, 5, 6]);
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
        "copy" => y.copy_from(&[1, 2])?,
        "iter" => y.write_iter([1, 2])?,
        _ => {
            let mut writer = y.writer();
            writer.push(1)?;
            writer.finish()?
        }
    };
    Ok(())
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
        ("copy", "2 elements cannot fill a result of 3"),
        ("iter", "2 of 3 elements of the result were written"),
        ("writer", "1 of 3 elements of the result were written"),
    ] {
        let call = crate::kit::call::<half_written>(&format!("{{how = \"{how}\"}}"))
            .ret(shape(DType::S32, &[3]));
        assert_eq!(refused(call), text);
    }
}

#[xla_ffi::handler]
fn any(x: AnyBuffer, y: AnyOut, mut told: Out<u64, 1>) -> Result<()> {
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
    y.copy_from_bytes(x.bytes())?;
    Ok(())
}

/// AnyBufferArgument, AnyBufferResult, DataTypeByteWidth.
#[test]
fn any_buffers_of_every_element_type() {
    for dtype in every_dtype() {
        let dims: &[i64] = if dtype == DType::Token { &[] } else { &[3] };
        let shape_of = || Shape::new(dtype, dims).unwrap();
        let mut tensor = Tensor::zeros(shape_of()).unwrap();
        if let Some(byte) = tensor.bytes_mut().and_then(|bytes| bytes.first_mut()) {
            *byte = 1;
        }
        let bytes = tensor.bytes().to_vec();
        let outcome = call::<any>("{}")
            .arg(tensor)
            .ret(shape_of())
            .ret(shape(DType::U64, &[4]))
            .run()
            .unwrap();
        let count = if dtype == DType::Token { 1 } else { 3 };
        let bits = bit_width(dtype.raw()).unwrap();
        assert_eq!(bits, dtype.bits(), "{dtype:?}");
        let told = [
            dtype.raw().0.into(),
            dims.len() as u64,
            count,
            (count * bits as u64).div_ceil(8),
        ];
        assert_eq!(ret::<u64>(&outcome, 1), told, "{dtype:?}");
        assert_eq!(outcome.rets[0].bytes(), bytes, "{dtype:?}");
    }
}

/// DataTypeEnumValue, ErrorEnumValue: against the ABI's own numbers.
#[test]
fn numbers_of_types_and_codes() {
    use xla_ffi::{DataType as D, sys::XLA_FFI_Error_Code as E};
    let numbers = [D::PRED, D::S8, D::F32, D::TOKEN, D::BF16, D::F8E8M0FNU].map(|d| d.0);
    assert_eq!(numbers, [1, 2, 11, 17, 16, 33]);
    assert_eq!(ErrorCode::Internal.to_raw(), E::INTERNAL);
    assert_eq!(ErrorCode::Unauthenticated.to_raw().0, 16);
}

macro_rules! copies {
    ($($name:ident $ty:ty;)*) => {
        $(
            #[xla_ffi::handler]
            fn $name(x: Buffer<$ty>, mut y: Out<$ty>) -> Result<()> {
                y.copy_from(&x)?;
                Ok(())
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
    copy_c64 Complex<f32>; copy_c128 Complex<f64>; copy_f8e5m2 xla_ffi::F8E5M2;
    copy_f8e3m4 xla_ffi::F8E3M4; copy_f8e4m3 xla_ffi::F8E4M3; copy_f8e4m3fn F8E4M3FN;
    copy_f8e4m3b11fnuz xla_ffi::F8E4M3B11FNUZ; copy_f8e5m2fnuz xla_ffi::F8E5M2FNUZ;
    copy_f8e4m3fnuz xla_ffi::F8E4M3FNUZ; copy_f8e8m0fnu F8E8M0FNU;
}

/// ComplexBufferArgument and all others: each Rust type takes its element type and no other.
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
}

#[xla_ffi::handler]
fn invert(x: Buffer<Pred>, mut y: Out<Pred>) -> Result<()> {
    y.write_iter(x.iter().map(|x| Pred::from(!x.get())))?;
    Ok(())
}

/// A byte that is neither 0 nor 1 is true, and no undefined behaviour.
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
    // 1, -2, 3 becomes -1, 2, -3.
    let negated = run(call::<negate_packed>("{}"), DType::S4, &[0xE1, 0x03]);
    assert_eq!(negated, [0x2F, 0x0D]);
    // 0, 1, 3 becomes 1, 2, 0 (it wraps).
    let counted = run(call::<count_up>("{}"), DType::U2, &[0b11_01_00]);
    assert_eq!(counted, [0b00_10_01]);
}

/// r3 and r4 do not name packed types: the sizes of their elements are not known, so nothing may
/// look at their bytes.
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
        assert_eq!(code, Code::Unimplemented);
        let lack = "element types of less than a byte: the first jaxlib that has it is 0.6.0; this \
                    host speaks XLA FFI 0.1";
        let head = format!("any (execute): 2 problems\n  argument `x`: {lack}");
        assert!(text.starts_with(&head), "{text}");
        let (code, text) = failed(on::<negate_packed>(revision, "{}").arg(x).ret(of()));
        assert_eq!(code, Code::Unimplemented, "{text}");
    }
}

#[xla_ffi::handler(shape = "token, ... -> token, ...")]
fn ordered(_before: Token, x: Buffer<f32>, _after: TokenOut, mut y: Out<f32>) -> Result<()> {
    y.copy_from(&x)?;
    Ok(())
}

/// TokenArgument.
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
        "ordered (execute): argument `before`: expected TOKEN, got F32[1]"
    );
}

#[xla_ffi::handler]
fn sum(
    first: Buffer<f32>,
    rest: RemainingArgs,
    mut y: Out<f32, 0>,
    mut n: Out<u64, 0>,
) -> Result<()> {
    let mut sum: f32 = first.iter().sum();
    for index in 0..rest.len() {
        sum += rest.get::<f32, ANY_RANK>(index)?.iter().sum::<f32>();
    }
    assert_eq!(rest.iter().count(), rest.len());
    assert_eq!(rest.is_empty(), rest.iter().next().is_none());
    y.fill(sum);
    n.fill(rest.len() as u64);
    let beyond = rest.get::<f32, 1>(rest.len()).unwrap_err();
    assert_eq!(beyond.code(), ErrorCode::OutOfRange);
    assert!(rest.any(usize::MAX).is_err());
    Ok(())
}

/// RemainingArgs.
#[test]
fn remaining_arguments() {
    let run = |args: Vec<Tensor>| {
        let outcome = call::<sum>("{}")
            .args(args)
            .ret(shape(DType::F32, &[]))
            .ret(shape(DType::U64, &[]))
            .run()?;
        Ok((ret::<f32>(&outcome, 0)[0], ret::<u64>(&outcome, 1)[0]))
    };
    let x = || vector(&[1.0_f32, 2.0]);
    assert_eq!(run(vec![x()]).unwrap(), (3.0, 0));
    assert_eq!(
        run(vec![x(), x(), array(&[], &[4.0_f32])]).unwrap(),
        (10.0, 2)
    );
    let text =
        |result: xla_ffi_runtime::Result<(f32, u64)>| result.unwrap_err().message().to_owned();
    assert_eq!(
        text(run(vec![])),
        "sum (execute): expected at least 1 argument (first, rest), got 0"
    );
    assert_eq!(
        text(run(vec![x(), vector(&[1_i32])])),
        "remaining argument 0: expected F32, got S32[1]"
    );
}

#[xla_ffi::handler]
fn spread(x: Buffer<f32>, mut ys: RemainingRets) -> Result<()> {
    let beyond = ys.len();
    assert_eq!(
        ys.take_any(beyond).unwrap_err().code(),
        ErrorCode::OutOfRange
    );
    if ys.is_empty() {
        return Ok(());
    }
    let mut whole = ys.take::<f32, 1>(0)?;
    let again = ys.take::<f32, 1>(0).unwrap_err();
    assert_eq!(again.message(), "remaining result 0 has been taken already");
    whole.copy_from(&x)?;
    for (index, y) in ys.into_iter().enumerate() {
        y.typed::<f32, ANY_RANK>()?.fill(x[0] + index as f32);
    }
    Ok(())
}

#[xla_ffi::handler]
fn many_results(mut ys: RemainingRets) -> Result<()> {
    for index in (0..ys.len()).rev() {
        assert_eq!(ys.dims(index)?, []);
        assert_eq!(ys.dtype(index)?, xla_ffi::DataType::S32);
        assert!(
            ys.take::<f32, 0>(index).is_err(),
            "another type is not taken"
        );
        ys.take::<i32, 0>(index)?.fill(index as i32);
        assert!(ys.take_any(index).is_err());
    }
    assert_eq!(ys.into_iter().count(), 0);
    Ok(())
}

/// RemainingRets; none can be had twice.
#[test]
fn remaining_results() {
    let f32s = |dims: &[i64]| shape(DType::F32, dims);
    let outcome = call::<spread>("{}")
        .arg(vector(&[1.0_f32, 2.0]))
        .ret(f32s(&[2]))
        .ret(f32s(&[]))
        .ret(f32s(&[1, 2]))
        .run()
        .unwrap();
    assert_eq!(ret::<f32>(&outcome, 0), [1.0, 2.0]);
    assert_eq!(ret::<f32>(&outcome, 1), [1.0]);
    assert_eq!(ret::<f32>(&outcome, 2), [2.0, 2.0]);
    assert!(call::<spread>("{}").arg(vector(&[1.0_f32])).run().is_ok());
    let many = (0..150).fold(call::<many_results>("{}"), |call, _| {
        call.ret(shape(DType::S32, &[]))
    });
    let outcome = many.run().unwrap();
    assert_eq!(ret::<i32>(&outcome, 149), [149]);
}

#[xla_ffi::handler]
fn optional_args(
    a: Buffer<f32>,
    b: Option<Buffer<f32>>,
    c: Option<Buffer<f32>>,
    rest: RemainingArgs,
    mut y: Out<i64, 1>,
) -> Result<()> {
    let told = [true, b.is_some(), c.is_some()].map(i64::from);
    y.copy_from(&[told[0], told[1], told[2], rest.len() as i64, a.len() as i64])?;
    Ok(())
}

#[xla_ffi::handler]
fn optional_arg(b: Option<Buffer<f32>>, mut y: Out<i64, 0>) -> Result<()> {
    y.fill(b.map_or(-1, |b| b.len() as i64));
    Ok(())
}

#[xla_ffi::handler]
fn two_optional_args(
    a: Option<AnyBuffer>,
    b: Option<Buffer<f32>>,
    mut y: Out<i64, 0>,
) -> Result<()> {
    y.fill(i64::from(a.is_some()) + i64::from(b.is_some()));
    Ok(())
}

/// OptionalArgs: single, two, after required, before remaining.
#[test]
fn optional_arguments() {
    let x = || vector(&[1.0_f32]);
    let some = |count: usize| (0..count).map(move |_| x());
    let of =
        |call: xla_ffi_runtime::Call, dims: &[i64]| first::<i64>(call.ret(shape(DType::S64, dims)));
    assert_eq!(of(call::<optional_arg>("{}"), &[]), [-1]);
    assert_eq!(of(call::<optional_arg>("{}").arg(x()), &[]), [1]);
    for count in 0..3 {
        let call = call::<two_optional_args>("{}").args(some(count));
        assert_eq!(of(call, &[]), [count as i64]);
    }
    let told = |count| of(call::<optional_args>("{}").args(some(count)), &[5]);
    assert_eq!(told(1), [1, 0, 0, 0, 1]);
    assert_eq!(told(2), [1, 1, 0, 0, 1]);
    assert_eq!(told(3), [1, 1, 1, 0, 1]);
    assert_eq!(told(5), [1, 1, 1, 2, 1]);
    let too_many = call::<two_optional_args>("{}")
        .args(some(3))
        .ret(shape(DType::S64, &[]));
    assert_eq!(
        refused(too_many),
        "two_optional_args (execute): expected 0 to 2 arguments (a, b), got 3"
    );
    let wrong = call::<optional_arg>("{}")
        .arg(vector(&[1_i32]))
        .ret(shape(DType::S64, &[]));
    assert_eq!(
        refused(wrong),
        "optional_arg (execute): argument `b`: expected F32, got S32[1]"
    );
}

#[xla_ffi::handler]
fn optional_rets(
    mut a: Out<i64, 0>,
    b: Option<Out<i64, 0>>,
    c: Option<AnyOut>,
    rest: RemainingRets,
) -> Result<()> {
    a.fill(1);
    if let Some(mut b) = b {
        b.fill(2);
    }
    if let Some(c) = c {
        c.typed::<i64, 0>()?.fill(3);
    }
    for rest in rest {
        rest.typed::<i64, 0>()?.fill(4);
    }
    Ok(())
}

/// OptionalRets: the same four.
#[test]
fn optional_results() {
    for count in 1..6 {
        let call = (0..count).fold(call::<optional_rets>("{}"), |call, _| {
            call.ret(shape(DType::S64, &[]))
        });
        let outcome = call.run().unwrap();
        let all: Vec<i64> = (0..count).map(|i| ret::<i64>(&outcome, i)[0]).collect();
        assert_eq!(all, [1, 2, 3, 4, 4][..count]);
    }
    assert_eq!(
        refused(call::<optional_rets>("{}")),
        "optional_rets (execute): expected at least 1 result (a, b, c, rest), got 0"
    );
}

#[xla_ffi::handler]
fn increment(mut x: InOut<i32>) -> Result<()> {
    x.iter_mut().for_each(|x| *x += 1);
    Ok(())
}

#[xla_ffi::handler]
fn maybe_increment(x: Option<InOut<i32, 1>>) -> Result<()> {
    if let Some(mut x) = x {
        x[0] += 1;
    }
    Ok(())
}

#[xla_ffi::handler]
fn add_into(mut x: InOut<i32>, y: Buffer<i32>) -> Result<()> {
    x.iter_mut().zip(&*y).for_each(|(x, y)| *x += y);
    Ok(())
}

/// Declared aliasing; undeclared aliasing of every kind is refused.
#[test]
fn in_out_operands() {
    let x = || vector(&[1, 2]);
    let outcome = call::<increment>("{}").arg(x()).ret_alias(0).run().unwrap();
    assert_eq!(ret::<i32>(&outcome, 0), [2, 3]);
    let s32 = || shape(DType::S32, &[2]);
    assert_eq!(
        refused(call::<increment>("{}").arg(x()).ret(s32())),
        "increment (execute): in-out operand `x`: argument and result lie in different memory; \
         declare the aliasing: input_output_aliases={0: 0}"
    );
    assert_eq!(
        refused(
            call::<increment>("{}")
                .arg(x())
                .ret(shape(DType::S32, &[3]))
        ),
        "increment (execute): in-out operand `x`: the argument has shape [2], the result [3]; both \
         have to be the same array"
    );
    let empty = call::<increment>("{}")
        .arg(vector::<i32>(&[]))
        .ret(shape(DType::S32, &[0]));
    assert!(empty.run().is_ok(), "empty buffers share nothing");
    assert!(call::<maybe_increment>("{}").run().is_ok());
    let outcome = call::<maybe_increment>("{}")
        .arg(x())
        .ret_alias(0)
        .run()
        .unwrap();
    assert_eq!(ret::<i32>(&outcome, 0), [2, 2]);
    assert_eq!(
        refused(call::<maybe_increment>("{}").arg(x())),
        "maybe_increment (execute): in-out operand `x`: came as an argument, but not as a result"
    );
    let outcome = call::<add_into>("{}")
        .args([x(), x()])
        .ret_alias(0)
        .run()
        .unwrap();
    assert_eq!(ret::<i32>(&outcome, 0), [2, 4]);
}

#[test]
fn undeclared_overlap_is_refused() {
    let call = call::<double>("{}").arg(vector(&[1.0_f32])).ret_alias(0);
    assert_eq!(
        refused(call),
        "double (execute): result `y` overlaps argument `x`; if the caller meant it \
         (input_output_aliases), declare it: `InOut<T>`"
    );
    let rest = crate::kit::call::<spread>("{}")
        .arg(vector(&[1.0_f32]))
        .ret_alias(0);
    assert_eq!(
        refused(rest),
        "spread (execute): result `ys` overlaps argument `x`; if the caller meant it \
         (input_output_aliases), declare it: `InOut<T>`"
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

/// Match and Verify: an element type out of a set, a rank out of a set.
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
        "one_of (execute): 2 problems\n  argument `x`: expected F32 or F64 or BF16, got S32[1]\n  \
         result `y`: expected F32 or F64, got BF16[1]"
    );
    assert_eq!(
        refused(call_with(array(&[], &[1.0_f32]), shape(DType::F32, &[1]))),
        "one_of (execute): argument `x`: expected rank 1, got F32[]"
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
    let outcome = crate::kit::call::<zero_diagonal>("{}")
        .arg(x)
        .ret_alias(0)
        .run()
        .unwrap();
    assert_eq!(ret::<i32>(&outcome, 0), [0, 4, 6, 0]);
}

xla_ffi::library! {
    name = "operands";
    double, ranked, filled, half_written, any, invert, negate_packed, count_up, ordered, sum, spread,
    many_results, optional_args, optional_arg, two_optional_args, optional_rets, increment,
    maybe_increment, add_into, one_of, product, zero_diagonal,
    copy_pred, copy_s8, copy_s16, copy_s32, copy_s64, copy_u8, copy_u16, copy_u32, copy_u64, copy_f16,
    copy_bf16, copy_f32, copy_f64, copy_c64, copy_c128, copy_f8e5m2, copy_f8e3m4, copy_f8e4m3,
    copy_f8e4m3fn, copy_f8e4m3b11fnuz, copy_f8e5m2fnuz, copy_f8e4m3fnuz, copy_f8e8m0fnu,
}
