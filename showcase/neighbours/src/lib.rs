//! Nearest neighbours for JAX: k-d trees by kiddo, built once for the points that they are of.
#![forbid(unsafe_code)]

mod tree;

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tree::{Held, Real, Which};
use xla_ffi::{ANY_RANK, Attribute, DataType, OneOf, OneOfOut, matching, prelude::*};

type Floats = (f32, f64);

/// The body, with `T` for the element type of an operand.
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

/// Finds neighbours of each query; gives the most that one has.
fn search<T: Real>(
    held: &Held,
    which: Which,
    points: OneOf<Floats, 2>,
    queries: OneOf<Floats>,
    (mut indices, distances): (Out<i32>, OneOfOut<Floats>),
    counts: &mut [std::mem::MaybeUninit<i32>],
    pool: ThreadPool,
) -> Result<usize> {
    matching::same_dtype("queries", queries.dtype(), "points", points.dtype())?;
    let points = points.typed::<T, 2>()?;
    let tree = held.tree(points)?;
    let queries = queries.typed::<T, ANY_RANK>()?;
    let mut distances = distances.typed::<T>()?;
    let counts = counts
        .iter_mut()
        .map(Some)
        .chain(std::iter::repeat_with(|| None));
    let rows = indices
        .rows_uninit()
        .zip(distances.rows_uninit())
        .zip(counts);
    let mut rows: Vec<_> = queries.chunks(points.shape()[1].max(1)).zip(rows).collect();
    let most = AtomicUsize::new(0);
    pool.for_each_chunk(&mut rows, 64, |_, rows| {
        for (query, ((indices, distances), count)) in rows {
            let (found, missing) = tree.search(query, which);
            most.fetch_max(found.len(), Relaxed);
            if let Some(count) = count {
                count.write(found.len() as i32);
            }
            let found = found.into_iter().chain(std::iter::repeat((-1, missing)));
            for ((index, distance), found) in indices.iter_mut().zip(&mut **distances).zip(found) {
                index.write(found.0);
                distance.write(found.1);
            }
        }
    });
    Ok(most.into_inner())
}

struct Nearest(Held, NonZero<usize>);

/// The `k` points nearest to each query, the nearest first: indices and distances.
#[xla_ffi::stateful(
    name = "nearest",
    shape = "n d, ... q d -> ... q k, ... q k",
    vjp = "distances_vjp",
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
            search::<T>(&self.0, which, points, queries, results, &mut [], pool).map(drop)
        })
    }
}

/// What becomes of neighbours beyond the capacity.
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

/// The points within `radius` of each query, the nearest first and at most `capacity`; how many
/// there are is told even where some did not fit.
#[xla_ffi::stateful(
    name = "within",
    shape = "n d, ... q d -> ... q capacity, ... q capacity, ... q",
    vjp = "distances_vjp",
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
        let (held, capacity) = (Held::default(), capacity as usize);
        Ok(Self {
            held,
            radius,
            capacity,
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
        let counts = counts.as_uninit();
        let most = with_type!(points, {
            search::<T>(&self.held, which, points, queries, results, counts, pool)?
        });
        if self.overflow == Overflow::Error && most > self.capacity {
            return Err(Error::out_of_range(format!(
                "a query has {most} neighbours, `capacity` is {}",
                self.capacity
            )));
        }
        Ok(())
    }
}

/// For the cotangent `g` of distances: those of points and queries. What is not there, and what is
/// no distance apart, gives nothing.
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
        let (points, queries) = (points.typed::<T, 2>()?, queries.typed::<T, ANY_RANK>()?);
        let (distances, g) = (distances.typed::<T, ANY_RANK>()?, g.typed::<T, ANY_RANK>()?);
        let (mut dpoints, mut dqueries) = (dpoints.typed::<T>()?, dqueries.typed::<T>()?);
        let (dpoints, dqueries) = (dpoints.fill(0.0), dqueries.fill(0.0));
        let [n, d] = points.shape();
        let k = indices.dims().last().map_or(1, |k| *k.max(&1));
        let per_batch = queries.dims().iter().rev().nth(1).map_or(1, |q| *q.max(&1));
        for (i, index) in indices
            .iter()
            .enumerate()
            .filter(|(i, _)| distances[*i] > 0.0)
        {
            let (query, Ok(point)) = (i / k, usize::try_from(*index)) else {
                continue;
            };
            for axis in 0..d {
                let from = queries[query * d + axis] - points[point * d + axis];
                let slope = g[i] * from / distances[i];
                dqueries[query * d + axis] += slope;
                dpoints[(query / per_batch * n + point) * d + axis] -= slope;
            }
        }
        Ok(())
    })
}

xla_ffi::library! { Nearest, Within, distances_vjp }
