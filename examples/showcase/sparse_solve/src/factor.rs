//! Matrices and their factors. Each call site keeps the factors of its last execution.

use faer::sparse::linalg::solvers::{Llt, Lu, SymbolicLlt, SymbolicLu};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMat, linalg::LuError};
use faer::{Conj, MatMut, Side, linalg::solvers::SolveCore, traits::ComplexField};
use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use xla_ffi::{Attribute, Element, prelude::*};

#[derive(Attribute, Clone, Copy, PartialEq)]
#[attr(strings)]
pub(crate) enum Method {
    Lu,
    /// The Cholesky factorisation, for Hermitian positive definite matrices. Reads only the lower
    /// triangle.
    Cholesky,
}

/// The number of numeric factorisations in this process.
pub(crate) static MADE: AtomicU32 = AtomicU32::new(0);
/// All factors that some call site still holds. Call sites with equal matrices share their factors.
static LIVING: Mutex<Vec<Weak<dyn Any + Send + Sync>>> = Mutex::new(Vec::new());

/// Square sparse matrices (CSR) with the same pattern, and `k` right-hand sides per matrix.
pub(crate) struct Matrices<'a, T> {
    values: &'a [T],
    columns: &'a [i32],
    starts: &'a [i32],
    /// The number of matrices, the number of right-hand sides per matrix, and the number of rows
    /// per matrix.
    sides: [usize; 3],
}

impl<'a, T> Matrices<'a, T> {
    pub(crate) fn new(
        values: &'a [T],
        columns: &'a [i32],
        starts: &'a [i32],
        dims: &[usize],
    ) -> Result<Self> {
        let (batch, [k, n]) = dims.split_last_chunk().ok_or("`b` is not a matrix")?;
        let ends = (
            starts.first().copied(),
            starts.last().map(|end| *end as usize),
        );
        if starts.len() != n + 1 || ends != (Some(0), Some(columns.len())) {
            let text = format!("`starts`: expected {} from 0 to {}", n + 1, columns.len());
            return Err(Error::invalid_argument(text));
        }
        for (row, ends) in starts.windows(2).enumerate() {
            let row_columns = columns
                .get(ends[0] as usize..ends[1] as usize)
                .unwrap_or(&[-1]);
            let ascend = row_columns.windows(2).all(|pair| pair[0] < pair[1]);
            if !ascend || row_columns.iter().any(|column| *column as usize >= *n) {
                return Err(Error::invalid_argument(format!(
                    "the columns of row {row} are not ascending numbers below {n}: \
                     BCSR.sum_duplicates makes them so"
                )));
            }
        }
        let sides = [batch.iter().product(), *k, *n];
        Ok(Self {
            values,
            columns,
            starts,
            sides,
        })
    }

    fn values(&self, i: usize) -> &'a [T] {
        &self.values[i * self.columns.len()..][..self.columns.len()]
    }

    /// Calls `each` for every right-hand side and matrix entry, with the indices of the entry's value, row and
    /// column.
    pub(crate) fn entries(&self, mut each: impl FnMut(usize, usize, usize)) {
        let [count, k, n] = self.sides;
        for side in 0..count * k {
            for (row, ends) in self.starts.windows(2).enumerate() {
                for entry in ends[0] as usize..ends[1] as usize {
                    let value = side / k * self.columns.len() + entry;
                    each(
                        value,
                        side * n + row,
                        side * n + self.columns[entry] as usize,
                    );
                }
            }
        }
    }
}

/// The positions of a matrix's entries, and the plan of the factorisation. Rows are stored as
/// columns, because the transpose is factorised.
struct Pattern {
    entries: SymbolicSparseColMat<u32>,
    plan: Plan,
}

#[derive(Clone)]
enum Plan {
    Lu(SymbolicLu<u32>),
    Cholesky(SymbolicLlt<u32>),
}

struct Factor<T> {
    pattern: Arc<Pattern>,
    values: Vec<T>,
    /// The factors; `None` if the matrix is singular.
    solver: Option<Box<dyn SolveCore<T> + Send + Sync>>,
}

impl<T: Element + ComplexField> Factor<T> {
    fn new(pattern: &Arc<Pattern>, values: &[T]) -> Result<Arc<Self>> {
        let matrix = SparseColMatRef::new(pattern.entries.as_ref(), values);
        let solver: Option<Box<dyn SolveCore<T> + Send + Sync>> = match pattern.plan.clone() {
            Plan::Lu(plan) => match Lu::try_new_with_symbolic(plan, matrix) {
                Ok(lu) => Some(Box::new(lu)),
                Err(LuError::SymbolicSingular { .. }) => None,
                Err(error) => return Err(Error::resource_exhausted(error.to_string())),
            },
            // The Cholesky factorisation fails if a pivot is not positive.
            Plan::Cholesky(plan) => match Llt::try_new_with_symbolic(plan, matrix, Side::Upper) {
                Ok(llt) => Some(Box::new(llt)),
                Err(_) => None,
            },
        };
        MADE.fetch_add(1, Relaxed);
        let (pattern, values) = (pattern.clone(), values.to_vec());
        let made = Arc::new(Self {
            pattern,
            values,
            solver,
        });
        let weak = Arc::downgrade(&made);
        LIVING
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(weak);
        Ok(made)
    }

    /// Solves the system for each right-hand side, in place. If any part of a solution is not
    /// finite, the whole solution becomes NaN.
    fn solve(&self, sides: &mut [T], n: usize, transposed: bool) {
        if let Some(solver) = &self.solver {
            let k = sides.len() / n;
            let sides = MatMut::from_column_major_slice_mut(&mut *sides, n, k);
            match transposed {
                false => solver.solve_transpose_in_place_with_conj(Conj::No, sides),
                true => solver.solve_in_place_with_conj(Conj::No, sides),
            }
        }
        for side in sides.chunks_mut(n) {
            if self.solver.is_none() || !side.iter().all(T::is_finite_impl) {
                side.fill(T::nan_impl());
            }
        }
    }
}

/// The state of a call site: the factors of the call site's last execution.
pub(crate) struct Held(Method, Mutex<Vec<Arc<dyn Any + Send + Sync>>>);

impl Held {
    pub(crate) fn new(method: Method) -> Self {
        Self(method, Mutex::default())
    }

    fn pattern<T: Element>(
        &self,
        a: &Matrices<T>,
        known: &[Arc<Factor<T>>],
    ) -> Result<Arc<Pattern>> {
        let unsigned = |given: &[i32]| given.iter().map(|i| *i as u32).collect::<Vec<_>>();
        let (starts, columns) = (unsigned(a.starts), unsigned(a.columns));
        let known = known.iter().map(|known| &known.pattern).find(|known| {
            matches!(known.plan, Plan::Lu(_)) == (self.0 == Method::Lu)
                && (known.entries.col_ptr(), known.entries.row_idx()) == (&starts, &columns)
        });
        if let Some(known) = known {
            return Ok(known.clone());
        }
        let n = a.sides[2];
        let entries = SymbolicSparseColMat::new_checked(n, n, starts, None, columns);
        let plan = match self.0 {
            Method::Lu => SymbolicLu::try_new(entries.as_ref()).map(Plan::Lu),
            Method::Cholesky => {
                SymbolicLlt::try_new(entries.as_ref(), Side::Upper).map(Plan::Cholesky)
            }
        };
        let plan = plan.map_err(|error| Error::resource_exhausted(error.to_string()))?;
        Ok(Arc::new(Pattern { entries, plan }))
    }

    /// Solves the systems for all right-hand sides, in place.
    pub(crate) fn solve<T: Element + ComplexField>(
        &self,
        a: &Matrices<T>,
        sides: &mut [T],
        transposed: bool,
        pool: ThreadPool,
    ) -> Result<()> {
        let [count, k, n] = a.sides;
        let mut living = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
        living.retain(|factor| factor.strong_count() > 0);
        let known = living
            .iter()
            .filter_map(|factor| factor.upgrade()?.downcast().ok());
        let known: Vec<Arc<Factor<T>>> = known.collect();
        drop(living);
        let pattern = self.pattern(a, &known)?;
        // Copies of a matrix that `vmap` makes are adjacent, so only neighbours are compared.
        let mut first: Vec<usize> = (0..count).collect();
        for i in (1..count).filter(|i| a.values(*i) == a.values(*i - 1)) {
            first[i] = first[i - 1];
        }
        let found: Vec<OnceLock<Result<Arc<_>>>> = first.iter().map(|_| OnceLock::new()).collect();
        // Each chunk uses a single matrix. If there is only one matrix, its right-hand sides are divided among the
        // threads.
        let some = if count > 1 {
            k
        } else {
            k.div_ceil(pool.num_threads())
        };
        pool.for_each_chunk(sides, some * n, |start, sides| {
            let i = first[start / (k * n)];
            let factor = found[i].get_or_init(|| {
                let fits = |f: &&Arc<Factor<T>>| {
                    Arc::ptr_eq(&f.pattern, &pattern) && f.values == a.values(i)
                };
                known
                    .iter()
                    .find(fits)
                    .map_or_else(|| Factor::new(&pattern, a.values(i)), |f| Ok(f.clone()))
            });
            if let Ok(factor) = factor {
                factor.solve(sides, n, transposed);
            }
        });
        let found = found.into_iter().filter_map(OnceLock::into_inner);
        let kept = found
            .map(|factor| factor.map(|factor| factor as _))
            .collect::<Result<_>>()?;
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        Ok(())
    }
}
