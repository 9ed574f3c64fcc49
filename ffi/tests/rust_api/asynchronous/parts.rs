//! Tests calls that complete in parts.

use super::f32s;
use crate::{array, call, failed, ret, shape, vector};
use std::thread;
use xla_ffi::{Later, prelude::*};
use xla_ffi_runtime::{Call, DType, ErrorCode};

#[xla_ffi::handler]
fn in_parts(later: Later, parts: i64, how: &str) -> Result<()> {
    let promise = later.promise(());
    let threads = how == "threads";
    for (index, part) in promise.count_down(parts as usize)?.into_iter().enumerate() {
        let outcome = match how {
            "error" if index % 2 == 1 => {
                Err(Error::new(ErrorCode::Aborted, format!("part {index}")))
            }
            _ => Ok(()),
        };
        if threads {
            thread::spawn(move || part.complete(outcome));
        } else if how == "dropped" && index == 1 {
            drop(part);
        } else {
            part.complete(outcome);
        }
    }
    Ok(())
}

/// Covers XLA's tests CountDownSuccess and CountDownError, and their variants FromThreadPool.
#[test]
fn calls_in_parts() {
    let run = |parts: i64, how: &str| {
        call::<in_parts>(&format!("{{parts = {parts} : i64, how = \"{how}\"}}"))
    };
    assert!(run(1, "").run().is_ok());
    assert!(run(5, "").run().is_ok());
    assert!(run(20, "threads").run().is_ok());
    assert_eq!(
        failed(run(5, "error")),
        (ErrorCode::Aborted, "in_parts (execute): part 1".to_owned())
    );
    let (code, text) = failed(run(3, "dropped"));
    assert_eq!(code, ErrorCode::Internal);
    assert_eq!(
        text,
        "in_parts (execute): the handler dropped a part of its promise without completing it"
    );
    assert_eq!(
        failed(run(0, "")),
        (
            ErrorCode::InvalidArgument,
            "in_parts (execute): a call in no parts would never complete".to_owned()
        )
    );
}

/// A handler whose parts each write the index of their row, times the first element of `x`.
#[xla_ffi::handler]
fn divided(
    x: AnyBuffer,
    factor: Buffer<i32, 1>,
    y: Out<i32, 2>,
    any: AnyOut,
    z: InOut<i32>,
    parts: i64,
    later: Later,
) -> Result<()> {
    let promise = later.promise((x, factor, y, any, z));
    for mut part in promise.count_down(parts as usize)? {
        let (rows, index) = (part.rows(), part.index());
        assert_eq!(part.with(|(_, _, y, _, _)| y.shape()), [rows.len(), 2]);
        thread::spawn(move || {
            part.complete_with(|(x, factor, mut y, mut any, mut z)| {
                assert_eq!((x.bytes().len(), factor.len()), (8, 2));
                for (row, y) in rows.clone().zip(y.rows_uninit()) {
                    for y in y {
                        y.write(row as i32 * factor[0]);
                    }
                }
                assert_eq!(
                    (any.dims(), any.byte_size()),
                    (&[rows.len()][..], 8 * rows.len())
                );
                any.fill_bytes(index as u8 + 1);
                z.iter_mut().for_each(|z| *z += 10 * index as i32);
                Ok(())
            });
        });
    }
    Ok(())
}

fn run_divided(rows: i64, parts: i64) -> Call {
    let z: Vec<i32> = (0..3 * rows).map(|i| i as i32).collect();
    call::<divided>(&format!("{{parts = {parts} : i64}}"))
        .arg(array(&[2], &[1_i32, 2]))
        .arg(vector(&[7_i32, 0]))
        .arg(array(&[rows, 3], &z))
        .ret(shape(DType::S32, &[rows, 2]))
        .ret(shape(DType::F64, &[rows]))
        .ret_alias(2)
}

/// Arguments are shared and results divided. Each part writes its own rows, and together they write
/// all rows.
#[test]
fn parts_own_rows_of_the_results() {
    for (rows, parts) in [(5_i64, 2_i64), (6, 3), (2, 5), (0, 3), (7, 7), (4, 1)] {
        let outcome = run_divided(rows, parts).run().unwrap();
        // The part that writes each row. The first `more` parts write one row more.
        let (each, more) = (rows / parts, rows % parts);
        let sizes = (0..parts).map(|part| each + i64::from(part < more));
        let owners: Vec<i64> = sizes
            .zip(0..)
            .flat_map(|(size, part)| (0..size).map(move |_| part))
            .collect();
        let twice: Vec<i32> = (0..rows as i32).flat_map(|row| [7 * row; 2]).collect();
        assert_eq!(ret::<i32>(&outcome, 0), twice, "{rows} {parts}");
        let bytes: Vec<u8> = owners
            .iter()
            .flat_map(|part| [*part as u8 + 1; 8])
            .collect();
        assert_eq!(outcome.rets[1].bytes(), bytes);
        let z: Vec<i32> = (0..3 * rows as usize)
            .map(|i| i as i32 + 10 * owners[i / 3] as i32)
            .collect();
        assert_eq!(ret::<i32>(&outcome, 2), z);
    }
}

/// A handler whose results cannot be divided. The handler ignores the error, but the error still
/// fails the call.
#[xla_ffi::handler]
fn indivisible(a: AnyOut, b: AnyOut, later: Later) -> Result<()> {
    let promise = later.promise((a, b));
    let _ = promise.count_down(2);
    Ok(())
}

#[test]
fn what_cannot_be_divided_is_told() {
    let run = |a: xla_ffi_runtime::Shape, b| {
        let (code, text) = failed(call::<indivisible>("{}").ret(a).ret(b));
        assert_eq!(code, ErrorCode::InvalidArgument);
        text
    };
    assert_eq!(
        run(f32s(&[4]), f32s(&[])),
        "indivisible (execute): a result that is a scalar cannot be divided into parts: gather their shares"
    );
    assert_eq!(
        run(f32s(&[4]), f32s(&[3, 4])),
        "indivisible (execute): results of 4 and of 3 rows cannot be divided alike: gather their shares"
    );
    assert_eq!(
        run(f32s(&[2]), shape(DType::S4, &[2, 3])),
        "indivisible (execute): a result of S4 cannot be divided here: row 1 does not begin at a byte"
    );
}

/// A handler that sums `x`. Each part contributes the sum of its chunk. Also returns the largest
/// share.
#[xla_ffi::handler]
fn gathered(
    x: Buffer<i64, 1>,
    sum: Out<i64, 0>,
    largest: Out<i64>,
    parts: i64,
    how: &str,
    later: Later,
) -> Result<()> {
    let parts = parts as usize;
    let fails = how == "finish";
    let promise = later.promise((x, (sum, largest)));
    let shares = promise.gather(
        parts,
        move |(x, (mut sum, mut largest)), shares: Vec<i64>| {
            assert_eq!(shares.len(), parts);
            if fails {
                return Err(Error::new(ErrorCode::DataLoss, format!("of {}", x.len())));
            }
            sum.fill(shares.iter().sum());
            largest.fill(shares.iter().copied().max().unwrap_or(0));
            Ok(())
        },
    )?;
    for part in shares {
        let how = how.to_owned();
        thread::spawn(move || {
            let index = part.index();
            assert_eq!(part.rows(), index..index + 1);
            match (how.as_str(), index) {
                ("dropped", 0) => drop(part),
                ("error", 0) => part.complete(Err(Error::not_found("share 0"))),
                _ => part.complete_with(|(x, ((), ()))| {
                    let chunk = x.len().div_ceil(parts).max(1);
                    Ok(x.chunks(chunk).nth(index).unwrap_or_default().iter().sum())
                }),
            }
        });
    }
    Ok(())
}

#[test]
fn shares_are_gathered_at_the_end() {
    let run = |parts: i64, how: &str| {
        call::<gathered>(&format!("{{parts = {parts} : i64, how = \"{how}\"}}"))
            .arg(vector(&[1_i64, 2, 3, 4, 5]))
            .ret(shape(DType::S64, &[]))
            .ret(shape(DType::S64, &[2]))
    };
    for (parts, largest) in [(1, 15), (2, 9), (5, 5), (8, 5)] {
        let outcome = run(parts, "").run().unwrap();
        assert_eq!(ret::<i64>(&outcome, 0), [15]);
        assert_eq!(ret::<i64>(&outcome, 1), [largest; 2]);
    }
    assert_eq!(
        failed(run(3, "finish")),
        (ErrorCode::DataLoss, "gathered (execute): of 5".to_owned())
    );
    assert_eq!(
        failed(run(3, "error")),
        (
            ErrorCode::NotFound,
            "gathered (execute): share 0".to_owned()
        )
    );
    let (code, text) = failed(run(3, "dropped"));
    assert_eq!(code, ErrorCode::Internal);
    assert!(text.contains("dropped a part of its promise"), "{text}");
    let (code, text) = failed(run(0, ""));
    assert_eq!(code, ErrorCode::InvalidArgument);
    assert_eq!(
        text,
        "gathered (execute): a call in no parts would never complete"
    );
}

xla_ffi::library! { name = "asynchronous_parts"; divided, gathered, in_parts, indivisible }
