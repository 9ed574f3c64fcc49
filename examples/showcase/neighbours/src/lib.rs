//! Nearest neighbours for JAX: k-d trees by kiddo, built once per set of points.
#![forbid(unsafe_code)]

mod tree;

use std::num::NonZero;
use tree::{Held, Real, Which};
use xla_ffi::{ANY_RANK, Attribute, DataType, OneOf, OneOfOut, matching, prelude::*};

type Floats = (f32, f64);

/// Runs the body with `T` as the element type of an operand.
macro_rules! with_type {
    ($operand:ident, $body:block) => {
        match $operand.dtype() {
            DataType::F32 => {
                type T = f32;
                $body
            }
            _ => {
                type T = f64;
                $body
            }
        }
    };
}

/// Finds the neighbours of each query, and returns the number of neighbours per query.
fn search<T: Real>(
    held: &Held,
    which: Which,
    points: OneOf<Floats, 2>,
    queries: OneOf<Floats>,
    (mut indices, distances): (Out<i32>, OneOfOut<Floats>),
    pool: ThreadPool,
) -> Result<Vec<i32>> {
    matching::same_dtype("queries", queries.dtype(), "points", points.dtype())?;
    let points = points.typed::<T, 2>()?;
    let tree = held.tree(points)?;
    let queries = queries.typed::<T, ANY_RANK>()?;
    let queries = queries
        .chunks(points.shape()[1].max(1))
        .map(|query| (query, 0));
    let mut distances = distances.typed::<T>()?;
    let rows = indices.rows_uninit().zip(distances.rows_uninit());
    let mut rows: Vec<_> = queries.zip(rows).collect();
    pool.for_each_chunk(&mut rows, 64, |_, rows| {
        for ((query, count), (indices, distances)) in rows {
            let (found, missing) = tree.search(query, which);
            *count = found.len() as i32;
            let found = found.into_iter().chain(std::iter::repeat((-1, missing)));
            for ((index, distance), found) in indices.iter_mut().zip(&mut **distances).zip(found) {
                index.write(found.0);
                distance.write(found.1);
            }
        }
    });
    Ok(rows.iter().map(|row| row.0.1).collect())
}

struct Nearest(Held, NonZero<usize>);

/// Finds the `k` points nearest to each query, nearest first: indices and distances.
#[xla_ffi::stateful(
    name = "nearest",
    shape = "n d, ... q d -> ... q k, ... q k",
    jvp = "distances_jvp",
    transpose = "distances_vjp",
    residuals = ["points", "queries", "indices", "distances"],
    batch = ["shared", "leading"]
)]
impl Nearest {
    fn instantiate(k: i64) -> Result<Self> {
        let count = usize::try_from(k).ok().and_then(NonZero::new);
        let wrong = || Error::invalid_argument(format!("`k` is {k}, expected 1 or more"));
        Ok(Self(Held::default(), count.ok_or_else(wrong)?))
    }

    fn execute(
        &self,
        points: OneOf<Floats, 2>,
        queries: OneOf<Floats>,
        indices: Out<i32>,
        distances: OneOfOut<Floats>,
        pool: ThreadPool,
    ) -> Result<()> {
        let (which, results) = (Which::Nearest(self.1), (indices, distances));
        with_type!(points, {
            search::<T>(&self.0, which, points, queries, results, pool).map(drop)
        })
    }
}

/// How neighbours beyond the capacity of the results are treated.
#[derive(Attribute, PartialEq)]
#[attr(strings)]
enum Overflow {
    Counted,
    Error,
}

struct Within {
    held: Held,
    radius: f64,
    capacity: usize,
    overflow: Overflow,
}

/// Finds the points within `radius` of each query, nearest first and at most `capacity`. The counts include
/// points that did not fit.
#[xla_ffi::stateful(
    name = "within",
    shape = "n d, ... q d -> ... q capacity, ... q capacity, ... q",
    jvp = "distances_jvp",
    transpose = "distances_vjp",
    residuals = ["points", "queries", "indices", "distances"],
    batch = ["shared", "leading"]
)]
impl Within {
    fn instantiate(
        radius: f64,
        capacity: i64,
        #[attr(default = Overflow::Counted)] overflow: Overflow,
    ) -> Result<Self> {
        if capacity < 1 || radius.is_nan() || radius < 0.0 {
            let text = format!("`capacity` is {capacity}, `radius` {radius}: no bounds");
            return Err(Error::invalid_argument(text));
        }
        Ok(Self {
            held: Held::default(),
            radius,
            capacity: capacity as usize,
            overflow,
        })
    }

    fn execute(
        &self,
        points: OneOf<Floats, 2>,
        queries: OneOf<Floats>,
        indices: Out<i32>,
        distances: OneOfOut<Floats>,
        mut counts: Out<i32>,
        pool: ThreadPool,
    ) -> Result<()> {
        let (which, results) = (Which::Within(self.radius), (indices, distances));
        let found = with_type!(points, {
            search::<T>(&self.held, which, points, queries, results, pool)?
        });
        let most = found.iter().max().map_or(0, |most| *most as usize);
        counts.copy_from(&found)?;
        if self.overflow == Overflow::Error && most > self.capacity {
            return Err(Error::out_of_range(format!(
                "a query has {most} neighbours, `capacity` is {}",
                self.capacity
            )));
        }
        Ok(())
    }
}

/// Calls `each` per distance and axis, with the index of the distance, the indices of the query's and the point's
/// coordinates, and the slope. Omits distances of 0. The point's index counts one copy of all points per batch
/// element.
fn slopes<T: Real>(
    (points, queries): (OneOf<Floats, 2>, OneOf<Floats>),
    (indices, distances): (Buffer<i32>, OneOf<Floats>),
    mut each: impl FnMut(usize, usize, usize, T),
) -> Result<()> {
    let (points, queries) = (points.typed::<T, 2>()?, queries.typed::<T, ANY_RANK>()?);
    let ([n, d], distances) = (points.shape(), distances.typed::<T, ANY_RANK>()?);
    let k = indices.dims().last().map_or(1, |k| *k.max(&1));
    let per_batch = queries.dims().iter().rev().nth(1).map_or(1, |q| *q.max(&1));
    for (i, (index, distance)) in indices.iter().zip(distances.iter()).enumerate() {
        if let (Ok(point), true) = (usize::try_from(*index), *distance > T::new(0.0)) {
            let copy = i / k / per_batch * n;
            for axis in 0..d {
                let (to, from) = (i / k * d + axis, point * d + axis);
                each(
                    i,
                    to,
                    copy * d + from,
                    (queries[to] - points[from]) / *distance,
                );
            }
        }
    }
    Ok(())
}

/// Computes the tangents of distances from the tangents of points and queries.
#[xla_ffi::handler(
    shape = "n d, ... q d, ... q k, ... q k, ... n d, ... q d -> ... q k",
    batch = ["shared", "leading", "leading", "leading", "leading", "leading"]
)]
fn distances_jvp(
    points: OneOf<Floats, 2>,
    queries: OneOf<Floats>,
    indices: Buffer<i32>,
    distances: OneOf<Floats>,
    dpoints: OneOf<Floats>,
    dqueries: OneOf<Floats>,
    ddistances: OneOfOut<Floats>,
) -> Result<()> {
    with_type!(points, {
        let (from, to) = (
            dpoints.typed::<T, ANY_RANK>()?,
            dqueries.typed::<T, ANY_RANK>()?,
        );
        let mut ddistances = ddistances.typed::<T>()?;
        let sums = ddistances.fill(0.0);
        slopes::<T>(
            (points, queries),
            (indices, distances),
            |i, query, point, slope| {
                sums[i] += slope * (to[query] - from[point]);
            },
        )
    })
}

/// Computes the cotangents of points and queries from the cotangent `g` of distances.
#[xla_ffi::handler(
    shape = "n d, ... q d, ... q k, ... q k, ... q k -> ... n d, ... q d",
    batch = ["shared", "leading", "leading", "leading", "leading"]
)]
fn distances_vjp(
    points: OneOf<Floats, 2>,
    queries: OneOf<Floats>,
    indices: Buffer<i32>,
    distances: OneOf<Floats>,
    g: OneOf<Floats>,
    dpoints: OneOfOut<Floats>,
    dqueries: OneOfOut<Floats>,
) -> Result<()> {
    with_type!(points, {
        let (mut dpoints, mut dqueries) = (dpoints.typed::<T>()?, dqueries.typed::<T>()?);
        let (dpoints, dqueries) = (dpoints.fill(0.0), dqueries.fill(0.0));
        let g = g.typed::<T, ANY_RANK>()?;
        slopes::<T>(
            (points, queries),
            (indices, distances),
            |i, query, point, slope| {
                dqueries[query] += g[i] * slope;
                dpoints[point] -= g[i] * slope;
            },
        )
    })
}

xla_ffi::library! { Nearest, Within, distances_jvp, distances_vjp }
