//! Sparse linear systems for JAX: LU and Cholesky by faer, factorised once and solved many times.
#![forbid(unsafe_code)]

mod factor;

use factor::{Held, Matrices, Method};
use num_complex::Complex;
use xla_ffi::{ANY_RANK, DataType, Element, OneOf, OneOfOut, matching, prelude::*};

type Floats = (f32, f64, Complex<f32>, Complex<f64>);

/// Runs the body with `T` as the element type of an operand.
macro_rules! with_type {
    ($operand:ident, $body:block) => {
        with_type!($operand, $body, F32 f32, F64 f64, C64 Complex<f32>, C128 Complex<f64>)
    };
    ($operand:ident, $body:block, $($dtype:ident $kind:ty),*) => {
        match $operand.dtype() {
            $(DataType::$dtype => { type T = $kind; $body })*
            other => Err(Error::unimplemented(format!("{other:?}"))),
        }
    };
}

fn slice<'f, T: Element>(name: &str, operand: OneOf<'f, Floats>) -> Result<&'f [T]> {
    matching::same_dtype(name, operand.dtype(), "values", T::DTYPE)?;
    Ok(operand.typed::<T, ANY_RANK>()?.as_slice())
}

struct Solve(Held);

/// Solves A x = b for each row of `b`, where A is given by its rows (CSR). A matrix that any call site has already
/// factorised is not factorised again. If A is singular, x is NaN.
#[xla_ffi::stateful(
    name = "solve",
    shape = "... nnz, nnz, starts, ... k n -> ... k n",
    jvp = "solve_jvp",
    transpose = "solve_vjp",
    residuals = ["values", "columns", "starts", "x"],
    batch = ["leading", "shared", "shared", "leading"]
)]
impl Solve {
    fn instantiate(#[attr(default = Method::Lu)] method: Method) -> Result<Self> {
        Ok(Self(Held::new(method)))
    }

    fn execute(
        &self,
        values: OneOf<Floats>,
        columns: Buffer<i32, 1>,
        starts: Buffer<i32, 1>,
        b: OneOf<Floats>,
        x: OneOfOut<Floats>,
        pool: ThreadPool,
    ) -> Result<()> {
        with_type!(values, {
            let a = Matrices::new(slice::<T>("values", values)?, &columns, &starts, b.dims())?;
            let mut x = x.typed::<T>()?;
            let b = slice::<T>("b", b)?;
            self.0.solve(&a, x.write_with(|i| b[i]), false, pool)
        })
    }
}

struct SolveJvp(Held);

/// Computes the tangent dx from the tangents of A's entries and of b: A dx = db - dA x.
#[xla_ffi::stateful(
    name = "solve_jvp",
    shape = "... nnz, nnz, starts, ... k n, ... nnz, ... k n -> ... k n",
    batch = ["leading", "shared", "shared", "leading", "leading", "leading"]
)]
impl SolveJvp {
    fn instantiate(#[attr(default = Method::Lu)] method: Method) -> Result<Self> {
        Ok(Self(Held::new(method)))
    }

    fn execute(
        &self,
        values: OneOf<Floats>,
        columns: Buffer<i32, 1>,
        starts: Buffer<i32, 1>,
        x: OneOf<Floats>,
        dvalues: OneOf<Floats>,
        db: OneOf<Floats>,
        dx: OneOfOut<Floats>,
        pool: ThreadPool,
    ) -> Result<()> {
        with_type!(values, {
            let a = Matrices::new(slice::<T>("values", values)?, &columns, &starts, x.dims())?;
            let (x, dvalues) = (slice::<T>("x", x)?, slice::<T>("dvalues", dvalues)?);
            let mut dx = dx.typed::<T>()?;
            let db = slice::<T>("db", db)?;
            let dx = dx.write_with(|i| db[i]);
            a.entries(|value, row, column| dx[row] -= dvalues[value] * x[column]);
            self.0.solve(&a, dx, false, pool)
        })
    }
}

struct SolveVjp(Held);

/// Computes cotangents from the cotangent `g` of x: db with A^T db = g, and -db x^T for the entries of A.
#[xla_ffi::stateful(
    name = "solve_vjp",
    shape = "... nnz, nnz, starts, ... k n, ... k n -> ... nnz, ... k n",
    batch = ["leading", "shared", "shared", "leading", "leading"]
)]
impl SolveVjp {
    fn instantiate(#[attr(default = Method::Lu)] method: Method) -> Result<Self> {
        Ok(Self(Held::new(method)))
    }

    fn execute(
        &self,
        values: OneOf<Floats>,
        columns: Buffer<i32, 1>,
        starts: Buffer<i32, 1>,
        x: OneOf<Floats>,
        g: OneOf<Floats>,
        dvalues: OneOfOut<Floats>,
        db: OneOfOut<Floats>,
        pool: ThreadPool,
    ) -> Result<()> {
        with_type!(values, {
            let a = Matrices::new(slice::<T>("values", values)?, &columns, &starts, x.dims())?;
            let (mut dvalues, mut db) = (dvalues.typed::<T>()?, db.typed::<T>()?);
            let (x, g) = (slice::<T>("x", x)?, slice::<T>("g", g)?);
            let db = db.write_with(|i| g[i]);
            self.0.solve(&a, db, true, pool)?;
            let dvalues = dvalues.fill(T::default());
            a.entries(|value, row, column| dvalues[value] -= db[row] * x[column]);
            Ok(())
        })
    }
}

/// Returns the number of numeric factorisations in this process.
#[xla_ffi::handler(shape = "-> ()", nondeterministic, batch = "none")]
fn factorisations(mut count: Out<u32, 0>) {
    count.fill(factor::MADE.load(std::sync::atomic::Ordering::Relaxed));
}

xla_ffi::library! { Solve, SolveJvp, SolveVjp, factorisations }
