//! Tests the library on the embedded runtime, on every revision of the ABI that it supports.

use xla_ffi_runtime::{
    Attributes, DType, ErrorCode, Outcome, Result, Revision, Runtime, Shape, Stage, Tensor,
};

/// Calls the handler `solve` on `runtime`, with a method and a matrix in CSR format.
fn solve(
    runtime: &Runtime,
    method: &str,
    values: &[f64],
    columns: &[i32],
    starts: &[i32],
) -> Result<Outcome> {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let file = std::env::current_exe()
        .unwrap()
        .with_file_name(format!("{prefix}sparse_solve{suffix}"));
    let library = runtime.open(&file)?;
    let stages = [
        (Stage::Instantiate, "sparse_solve__solve_instantiate"),
        (Stage::Execute, "sparse_solve__solve"),
    ];
    let handler = library.handler("solve", &stages)?;
    let attributes = Attributes::new().with("method", method);
    let count = |length: usize| length as i64;
    let n = 3.min(count(starts.len()) - 1);
    handler
        .instantiate(&attributes)?
        .call()
        .arg(Tensor::from_slice([count(values.len())], values)?)
        .arg(Tensor::from_slice([count(columns.len())], columns)?)
        .arg(Tensor::from_slice([count(starts.len())], starts)?)
        .arg(Tensor::from_slice([1, n], &[1.0, 2.0, 3.0][..n as usize])?)
        .ret(Shape::new(DType::F64, [1, n])?)
        .run()
}

fn floats(outcome: Result<Outcome>) -> Vec<f64> {
    outcome.unwrap().rets[0].to_vec().unwrap()
}

/// The column indices and row starts of the matrix [[a, 0, b], [0, c, 0], [b, 0, d]].
const COLUMNS: [i32; 5] = [0, 2, 1, 0, 2];
const STARTS: [i32; 4] = [0, 2, 3, 5];

#[test]
fn solves() {
    for revision in Revision::ALL
        .into_iter()
        .filter(|revision| *revision >= Revision::R1)
    {
        let runtime = Runtime::new(revision);
        for method in ["lu", "cholesky"] {
            let x = floats(solve(
                &runtime,
                method,
                &[4.0, 1.0, 2.0, 1.0, 5.0],
                &COLUMNS,
                &STARTS,
            ));
            let expected = [2.0 / 19.0, 1.0, 11.0 / 19.0];
            let close = x.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-14);
            assert!(close, "{revision:?} {method}: {x:?}");
        }
    }
}

#[test]
fn singular_is_nan() {
    let runtime = Runtime::new(Revision::ALL[Revision::ALL.len() - 1]);
    for method in ["lu", "cholesky"] {
        let x = floats(solve(
            &runtime,
            method,
            &[1.0, 1.0, 2.0, 1.0, 1.0],
            &COLUMNS,
            &STARTS,
        ));
        assert!(x.iter().all(|x| x.is_nan()), "{method}: {x:?}");
        let x = floats(solve(&runtime, method, &[], &[], &[0; 4]));
        assert!(x.iter().all(|x| x.is_nan()), "{method}, no entries: {x:?}");
    }
}

#[test]
fn refuses_what_is_no_matrix() {
    let runtime = Runtime::new(Revision::ALL[Revision::ALL.len() - 1]);
    for (columns, starts, told) in [
        ([0, 3, 1, 0, 2], STARTS, "columns of row 0"),
        ([0, 2, -1, 0, 2], STARTS, "columns of row 1"),
        ([0, 2, 1, 2, 0], STARTS, "columns of row 2"),
        (COLUMNS, [0, 2, 3, 4], "4 from 0 to 5"),
        (COLUMNS, [0, 9, 3, 5], "columns of row 0"),
        (COLUMNS, [0, -1, 3, 5], "columns of row 0"),
    ] {
        let error = solve(&runtime, "lu", &[1.0; 5], &columns, &starts).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message().contains(told), "{error}");
    }
}

#[test]
fn a_matrix_without_rows_has_a_solution() {
    let runtime = Runtime::new(Revision::ALL[Revision::ALL.len() - 1]);
    for method in ["lu", "cholesky"] {
        assert!(floats(solve(&runtime, method, &[], &[], &[0])).is_empty());
    }
}
