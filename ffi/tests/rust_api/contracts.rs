//! Tests the errors of shape contracts.

use crate::{array, call, refused, shape};
use xla_ffi::prelude::*;
use xla_ffi_runtime::{Call, DType, Tensor};

fn zeros(dims: &[i64]) -> Tensor {
    array(dims, &vec![0.0_f32; dims.iter().product::<i64>() as usize])
}

fn with(call: Call, args: &[&[i64]], rets: &[&[i64]]) -> Call {
    let call = args.iter().fold(call, |call, dims| call.arg(zeros(dims)));
    rets.iter()
        .fold(call, |call, dims| call.ret(shape(DType::F32, dims)))
}

#[xla_ffi::handler(shape = "b n k, b k m -> b n m")]
fn matmul(_a: Buffer<f32, 3>, _b: Buffer<f32>, y: Out<f32>) -> Result<()> {
    y.leave_unwritten();
    Ok(())
}

#[xla_ffi::handler(shape = "... n, n, 3 _ -> ..., ()")]
fn ellipsis(
    _x: Buffer<f32>,
    _w: Buffer<f32, 1>,
    _c: AnyBuffer,
    y: Out<f32>,
    s: Out<f32, 0>,
) -> Result<()> {
    y.leave_unwritten();
    s.leave_unwritten();
    Ok(())
}

#[xla_ffi::handler(shape = "n, m? -> n, m?")]
fn optional(
    _a: Buffer<f32>,
    _b: Option<Buffer<f32>>,
    y: Out<f32>,
    z: Option<Out<f32>>,
) -> Result<()> {
    y.leave_unwritten();
    if let Some(z) = z {
        z.leave_unwritten();
    }
    Ok(())
}

#[xla_ffi::handler(shape = "n, n 2* -> n*")]
fn variadic(_a: Buffer<f32>, _rest: RemainingArgs, ys: RemainingRets) -> Result<()> {
    ys.leave_unwritten();
    Ok(())
}

#[xla_ffi::handler(shape = "n m, m -> n")]
fn typed(_a: Buffer<f32, 2>, _b: Buffer<f32, 1>, y: Out<f32, 1>) -> Result<()> {
    y.leave_unwritten();
    Ok(())
}

#[xla_ffi::handler(shape = "n m -> n m")]
fn in_place(_x: InOut<f32, 2>) -> Result<()> {
    Ok(())
}

#[test]
fn contracts_hold() {
    let ok = |call: Call| assert!(call.run().is_ok());
    ok(with(
        call::<matmul>("{}"),
        &[&[2, 3, 4], &[2, 4, 5]],
        &[&[2, 3, 5]],
    ));
    ok(with(
        call::<ellipsis>("{}"),
        &[&[7, 2, 5], &[5], &[3, 9]],
        &[&[7, 2], &[]],
    ));
    ok(with(
        call::<ellipsis>("{}"),
        &[&[5], &[5], &[3, 0]],
        &[&[], &[]],
    ));
    ok(with(call::<optional>("{}"), &[&[2]], &[&[2]]));
    ok(with(call::<optional>("{}"), &[&[2], &[3]], &[&[2], &[3]]));
    ok(with(call::<variadic>("{}"), &[&[2]], &[]));
    ok(with(
        call::<variadic>("{}"),
        &[&[2], &[2, 2], &[2, 2]],
        &[&[2], &[2], &[2]],
    ));
    ok(call::<in_place>("{}").arg(zeros(&[2, 3])).ret_alias(0));
}

#[test]
fn broken_contracts_say_which_size_came_from_where() {
    for (call, names) in [
        (
            with(
                call::<matmul>("{}"),
                &[&[2, 3, 4], &[2, 5, 5]],
                &[&[2, 4, 6]],
            ),
            &[
                "`b`",
                "k = 4 from argument `a`",
                "result `y`",
                "n = 3 from argument `a`",
            ][..],
        ),
        (
            with(
                call::<ellipsis>("{}"),
                &[&[7, 5], &[5], &[3, 9]],
                &[&[8], &[]],
            ),
            &["result `y`", "... = [7]", "F32[8]"],
        ),
        (
            with(call::<ellipsis>("{}"), &[&[5], &[5], &[4, 9]], &[&[], &[]]),
            &["argument `c`", "F32[3, ?]", "F32[4, 9]"],
        ),
        (
            with(call::<ellipsis>("{}"), &[&[], &[5], &[3, 9]], &[&[], &[]]),
            &["argument `x`", "F32[..., n]", "F32[]"],
        ),
        (
            with(call::<optional>("{}"), &[&[2], &[3]], &[&[2], &[4]]),
            &["result `z`", "m = 3 from argument `b`", "F32[4]"],
        ),
        (
            with(call::<variadic>("{}"), &[&[2], &[2, 2], &[3, 2]], &[&[2]]),
            &[
                "argument `rest` (2)",
                "n = 2 from argument `a`",
                "F32[3, 2]",
            ],
        ),
    ] {
        let text = refused(call);
        assert!(names.iter().all(|name| text.contains(name)), "{text}");
    }
}

/// A contract is checked only if the operands match their declarations.
#[test]
fn broken_contracts_are_reported_if_all_else_is_right() {
    let wrong = call::<typed>("{other = 1 : i64}").arg(array(&[2, 3], &[0.0_f64; 6]));
    let text = refused(with(wrong, &[&[4]], &[&[2, 4]]));
    for name in ["3 problems", "`other`", "`a`: expected F32", "`y`"] {
        assert!(text.contains(name) && !text.contains("contract"), "{text}");
    }
    // If an operand is missing, the other operands cannot be matched with parameters.
    let text = refused(with(call::<typed>("{}"), &[&[4]], &[&[4]]));
    assert!(
        text.contains("missing argument") && !text.contains("contract"),
        "{text}"
    );
}

xla_ffi::library! { name = "contracts"; matmul, ellipsis, optional, variadic, typed, in_place }
