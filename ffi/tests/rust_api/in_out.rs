//! Tests operands that are read and written in place.

use crate::operands::double;
use crate::remaining::spread;
use crate::{call, refused, ret, shape, vector};
use xla_ffi::prelude::*;
use xla_ffi_runtime::DType;

#[xla_ffi::handler]
fn increment(mut x: InOut<i32>) -> Result<()> {
    x.iter_mut().for_each(|x| *x += 1);
    Ok(())
}

#[xla_ffi::handler]
fn maybe_increment(x: Option<InOut<i32, 1>>) -> Result<()> {
    if let Some(mut x) = x {
        assert_eq!(x.shape(), [x.len()]);
        x[0] += 1;
    }
    Ok(())
}

#[xla_ffi::handler]
fn add_into(mut x: InOut<i32>, y: Buffer<i32>) -> Result<()> {
    x.iter_mut().zip(&*y).for_each(|(x, y)| *x += y);
    Ok(())
}

/// Declared aliases are accepted, and undeclared aliases of every kind are rejected.
#[test]
fn in_out_operands() {
    let x = || vector(&[1, 2]);
    let outcome = call::<increment>("{}").arg(x()).ret_alias(0).run().unwrap();
    assert_eq!(ret::<i32>(&outcome, 0), [2, 3]);
    let s32 = || shape(DType::S32, &[2]);
    assert_eq!(
        refused(call::<increment>("{}").arg(x()).ret(s32())),
        "increment (execute): in-out operand `x`: argument and result are in different memory; declare the aliasing: input_output_aliases={0: 0}"
    );
    assert_eq!(
        refused(
            call::<increment>("{}")
                .arg(x())
                .ret(shape(DType::S32, &[3]))
        ),
        "increment (execute): in-out operand `x`: the argument is S32[2], the result S32[3]; both must be the same array"
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
        "maybe_increment (execute): in-out operand `x`: passed as an argument, but not as a result"
    );
    assert_eq!(
        refused(call::<maybe_increment>("{}").ret(shape(DType::S32, &[2]))),
        "maybe_increment (execute): in-out operand `x`: passed as a result, but not as an argument"
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
        "double (execute): result `y` overlaps argument `x`; if the caller aliases them (input_output_aliases), declare an in-out operand"
    );
    let rest = crate::call::<spread>("{}")
        .arg(vector(&[1.0_f32]))
        .ret_alias(0);
    assert_eq!(
        refused(rest),
        "spread (execute): result `ys` overlaps argument `x`; if the caller aliases them (input_output_aliases), declare an in-out operand"
    );
    let later = crate::call::<spread>("{}")
        .arg(vector(&[1.0_f32]))
        .ret(shape(DType::F32, &[1]))
        .ret_alias(0);
    assert!(refused(later).contains("` overlaps argument `x`"));
}

xla_ffi::library! {
    name = "in_out";
    increment, maybe_increment, add_into,
}
