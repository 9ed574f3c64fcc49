//! Tests user-defined parameter types.

use crate::{array, call, first, refused, shape, vector};
use xla_ffi::{
    Bind,
    bind::{At, Frame, OutlivesCall, Param, Problems},
    prelude::*,
};
use xla_ffi_runtime::DType;

/// A parameter type derived from an argument that is a square matrix.
#[derive(Bind)]
#[bind(from = Buffer<'f, f32, 2>)]
struct Square<'f> {
    elements: &'f [f32],
    size: usize,
}

impl<'f> TryFrom<Buffer<'f, f32, 2>> for Square<'f> {
    type Error = String;

    fn try_from(from: Buffer<'f, f32, 2>) -> std::result::Result<Self, String> {
        let [n, m] = from.shape();
        if n != m {
            return Err(format!("expected a square matrix, got {n} × {m}"));
        }
        Ok(Self {
            elements: from.as_slice(),
            size: n,
        })
    }
}

/// A parameter type derived from an attribute that must be positive.
#[derive(Bind)]
#[bind(from = f64)]
struct Positive(f64);

impl TryFrom<f64> for Positive {
    type Error = Error;

    fn try_from(value: f64) -> Result<Self> {
        if value > 0.0 {
            return Ok(Self(value));
        }
        Err(Error::out_of_range(format!("{value} is not above 0")))
    }
}

/// A parameter type that is derived from a part of the context.
#[derive(Bind)]
#[bind(from = Option<RunId>)]
struct Seed(i64);

impl From<Option<RunId>> for Seed {
    fn from(run: Option<RunId>) -> Self {
        Self(run.map_or(0, RunId::get))
    }
}

#[xla_ffi::handler(shape = "n n -> ()")]
fn trace(x: Square, mut y: Out<f64, 0>, scale: Positive, seed: Seed) -> Result<()> {
    let trace: f32 = (0..x.size).map(|i| x.elements[i * (x.size + 1)]).sum();
    y.fill(f64::from(trace) * scale.0 + seed.0 as f64);
    Ok(())
}

#[xla_ffi::handler]
fn copied(x: Option<Square>, mut y: Out<f32>) -> Result<()> {
    match x {
        Some(x) => y.copy_from(x.elements)?,
        None => _ = y.fill(0.0),
    }
    Ok(())
}

#[test]
fn types_made_from_parameters() {
    let x = || array(&[2, 2], &[1.0_f32, 2.0, 3.0, 4.0]);
    let f64s = || shape(DType::F64, &[]);
    let run = call::<trace>("{scale = 2.0}")
        .run_id(100)
        .arg(x())
        .ret(f64s());
    assert_eq!(first::<f64>(run), [110.0]);
    assert_eq!(
        refused(
            call::<trace>("{scale = -1.0}")
                .arg(array(&[1, 2], &[1.0_f32, 2.0]))
                .ret(f64s())
        ),
        "trace (execute): 2 problems\n  argument `x`: expected a square matrix, got 1 × 2\n  attribute `scale`: -1 is not above 0"
    );
    assert_eq!(
        refused(
            call::<trace>("{scale = 1 : i64}")
                .arg(vector(&[1.0_f32]))
                .ret(f64s())
        ),
        "trace (execute): 2 problems\n  argument `x`: expected F32[?, ?], got F32[1]\n  attribute `scale`: expected F64, got S64; pass np.float64(value)"
    );
    let run = call::<copied>("{}")
        .arg(x())
        .ret(shape(DType::F32, &[2, 2]));
    assert_eq!(first::<f32>(run), [1.0, 2.0, 3.0, 4.0]);
    assert!(
        call::<copied>("{}")
            .ret(shape(DType::F32, &[1]))
            .run()
            .is_ok()
    );
    // The overlap check includes the source operand of a derived parameter.
    assert_eq!(
        refused(call::<copied>("{}").arg(x()).ret_alias(0)),
        "copied (execute): result `y` overlaps argument `x`; if the caller aliases them (input_output_aliases), declare an in-out operand"
    );
}

/// A derived parameter can be kept if its source operand or source attribute can be kept.
#[xla_ffi::handler]
async fn later(x: Square<'_>, mut y: Out<f64, 0>, scale: Positive, seed: Seed) -> Result<()> {
    std::future::ready(()).await;
    y.fill(f64::from(x.elements[0]) * scale.0 + x.size as f64 + seed.0 as f64);
    Ok(())
}

#[test]
fn own_types_outlive_the_call() {
    let run = call::<later>("{scale = 2.0}")
        .run_id(100)
        .arg(array(&[1, 1], &[3.0_f32]))
        .ret(shape(DType::F64, &[]));
    assert_eq!(first::<f64>(run), [107.0]);
}

/// A result with two elements, implemented by hand.
struct Pair<'f>(Out<'f, f32, 1>);

// SAFETY: the value accesses only the result at its place.
unsafe impl<'f> Bind<'f> for Pair<'f> {
    const PARAM: Param = <Out<'f, f32, 1> as Bind<'f>>::PARAM;

    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        let out = <Out<'f, f32, 1> as Bind<'f>>::bind(frame, at)?;
        (out.len() == 2).then_some(Self(out))
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        <Out<'f, f32, 1> as Bind<'f>>::explain(frame, at, problems);
        let out = <Out<'f, f32, 1> as Bind<'f>>::bind(frame, at);
        if out.is_some_and(|out| out.len() != 2) {
            problems.push(format!("result `{}`: expected two elements", at.param.name));
        }
    }
}

// SAFETY: the type holds only a result and nothing of the call's context.
unsafe impl OutlivesCall for Pair<'_> {}

#[xla_ffi::handler]
async fn pair(x: Buffer<f32, 1>, mut y: Pair<'_>) -> Result<()> {
    y.0.fill(x[0]);
    Ok(())
}

#[test]
fn types_bound_by_hand() {
    let x = || vector(&[1.0_f32]);
    let run = call::<pair>("{}").arg(x()).ret(shape(DType::F32, &[2]));
    assert_eq!(first::<f32>(run), [1.0, 1.0]);
    assert_eq!(
        refused(call::<pair>("{}").arg(x()).ret(shape(DType::F32, &[3]))),
        "pair (execute): result `y`: expected two elements"
    );
    let aliased = call::<pair>("{}").arg(vector(&[1.0_f32, 2.0])).ret_alias(0);
    let text = refused(aliased);
    assert!(text.contains("result `y` overlaps argument `x`"), "{text}");
}

xla_ffi::library! { name = "own_types"; trace, copied, later, pair }
