//! Tests remaining and optional arguments and results.

use crate::{array, call, first, refused, ret, shape, vector};
use xla_ffi::prelude::*;
use xla_ffi_runtime::{DType, Tensor};

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

/// Covers XLA's test RemainingArgs: any number of remaining arguments.
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
    assert_eq!(text(run(vec![])), "sum (execute): missing argument `first`");
    assert_eq!(
        text(run(vec![x(), vector(&[1_i32])])),
        "sum (execute): remaining argument 0: expected F32, got S32[1]"
    );
}

#[xla_ffi::handler]
pub(crate) fn spread(x: Buffer<f32>, mut ys: RemainingRets) -> Result<()> {
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
        assert_eq!(ys.dims(index)?, [0_usize; 0]);
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

/// Covers XLA's test RemainingRets. A result cannot be taken twice.
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
    for count in [65, 150] {
        let many = (0..count).fold(call::<many_results>("{}"), |call, _| {
            call.ret(shape(DType::S32, &[]))
        });
        let outcome = many.run().unwrap();
        assert_eq!(ret::<i32>(&outcome, count - 1), [count as i32 - 1]);
    }
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
    y.copy_from(&[told[0], told[1], told[2], rest.len() as i64, a.len() as i64])
}

/// Covers XLA's tests for OptionalArgs: one optional argument, two, after required arguments, and
/// before remaining arguments.
#[test]
fn optional_arguments() {
    let x = || vector(&[1.0_f32]);
    let some = |count: usize| (0..count).map(move |_| x());
    let of =
        |call: xla_ffi_runtime::Call, dims: &[i64]| first::<i64>(call.ret(shape(DType::S64, dims)));
    let told = |count| of(call::<optional_args>("{}").args(some(count)), &[5]);
    assert_eq!(told(1), [1, 0, 0, 0, 1]);
    assert_eq!(told(2), [1, 1, 0, 0, 1]);
    assert_eq!(told(3), [1, 1, 1, 0, 1]);
    assert_eq!(told(5), [1, 1, 1, 2, 1]);
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

/// Covers XLA's tests for OptionalRets: one optional result, two, after required results, and
/// before remaining results.
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
        "optional_rets (execute): missing result `a`"
    );
}

xla_ffi::library! {
    name = "remaining";
    sum, spread, many_results, optional_args, optional_rets,
}
