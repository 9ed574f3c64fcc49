//! Tests the library on the embedded runtime, on every revision of the ABI that the library
//! supports.

use xla_ffi_runtime::{
    Attributes, DType, ErrorCode, Outcome, Result, Revision, Runtime, Shape, Stage, Tensor,
};

const QUERIES: [f32; 4] = [0.1, 0.0, 2.0, 2.0];
const POINTS: [f32; 10] = [0.0, 0.0, 1.0, 0.0, 0.0, 3.0, 2.0, 2.0, 9.0, 9.0];

/// Calls a handler with points in the plane and two queries. `k` is the size of the results' last
/// dimension.
fn call(
    revision: Revision,
    name: &str,
    attributes: Attributes,
    k: i64,
    points: &[f32],
) -> Result<Outcome> {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let file = format!("{prefix}neighbours{suffix}");
    let file = std::env::current_exe().unwrap().with_file_name(file);
    let runtime = Runtime::new(revision);
    let library = runtime.open(&file)?;
    let instantiate = format!("neighbours__{name}_instantiate");
    let execute = format!("neighbours__{name}");
    let stages = [
        (Stage::Instantiate, instantiate.as_str()),
        (Stage::Execute, execute.as_str()),
    ];
    let handler = library.handler(name, &stages)?;
    let mut call = handler
        .instantiate(&attributes)?
        .call()
        .arg(Tensor::from_slice([points.len() as i64 / 2, 2], points)?)
        .arg(Tensor::from_slice([2, 2], &QUERIES)?)
        .ret(Shape::new(DType::S32, [2, k])?)
        .ret(Shape::new(DType::F32, [2, k])?);
    if name == "within" {
        call = call.ret(Shape::new(DType::S32, [2])?);
    }
    call.run()
}

const NEWEST: Revision = Revision::ALL[Revision::ALL.len() - 1];

fn indices(outcome: &Outcome) -> Vec<i32> {
    outcome.rets[0].to_vec().unwrap()
}

fn distances(outcome: &Outcome) -> Vec<f32> {
    outcome.rets[1].to_vec().unwrap()
}

fn within(capacity: i64) -> Attributes {
    let attributes = Attributes::new().with("radius", 2.5_f64);
    attributes.with("capacity", capacity)
}

#[test]
fn finds_the_nearest() {
    for revision in Revision::ALL.into_iter().filter(|r| *r >= Revision::R1) {
        let outcome = call(
            revision,
            "nearest",
            Attributes::new().with("k", 2_i64),
            2,
            &POINTS,
        );
        let outcome = outcome.unwrap();
        assert_eq!(indices(&outcome), [0, 1, 3, 1], "{revision:?}");
        assert_eq!(distances(&outcome)[..3], [0.1, 0.9, 0.0]);
    }
}

#[test]
fn finds_those_within() {
    let outcome = call(NEWEST, "within", within(3), 3, &POINTS).unwrap();
    assert_eq!(indices(&outcome)[..2], [0, 1]);
    assert_eq!(outcome.rets[2].to_vec::<i32>().unwrap(), [2, 3]);
}

#[test]
fn tells_of_overflow() {
    let outcome = call(NEWEST, "within", within(1), 1, &POINTS).unwrap();
    assert_eq!(indices(&outcome), [0, 3]);
    assert_eq!(outcome.rets[2].to_vec::<i32>().unwrap(), [2, 3]);
    let attributes = within(2).with("overflow", "error");
    let error = call(NEWEST, "within", attributes, 2, &POINTS).unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutOfRange);
    assert!(
        error.message().contains("a query has 3 neighbours"),
        "{error}"
    );
    let attributes = within(3).with("overflow", "error");
    assert!(call(NEWEST, "within", attributes, 3, &POINTS).is_ok());
}

#[test]
fn there_may_be_fewer_points_or_none() {
    let outcome = call(
        NEWEST,
        "nearest",
        Attributes::new().with("k", 2_i64),
        2,
        &POINTS[..2],
    );
    let outcome = outcome.unwrap();
    assert_eq!(indices(&outcome), [0, -1, 0, -1]);
    assert_eq!(distances(&outcome)[1], f32::INFINITY);
    let outcome = call(NEWEST, "within", within(2), 2, &[]).unwrap();
    assert_eq!(indices(&outcome), [-1; 4]);
    assert_eq!(outcome.rets[2].to_vec::<i32>().unwrap(), [0, 0]);
}

#[test]
fn what_is_no_number_is_near_nothing() {
    let outcome = call(
        NEWEST,
        "nearest",
        Attributes::new().with("k", 1_i64),
        1,
        &[0.0, f32::NAN, 1.0, 1.0],
    );
    let outcome = outcome.unwrap();
    assert_eq!(indices(&outcome), [-1, -1]);
    assert!(distances(&outcome).iter().all(|x| x.is_nan()));
}

#[test]
fn refuses_what_is_no_bound() {
    for (name, attributes) in [
        ("nearest", Attributes::new().with("k", 0_i64)),
        ("within", within(0)),
        (
            "within",
            Attributes::new()
                .with("radius", -1.0_f64)
                .with("capacity", 1_i64),
        ),
    ] {
        let error = call(NEWEST, name, attributes, 1, &POINTS).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    }
}
