//! More than a single call: state that is kept between executions, results that are written after the handler
//! has returned, and loops on the host's thread pool.
#![forbid(unsafe_code)]

use std::pin::Pin;
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use xla_ffi::{Later, prelude::*};

// State is created when a program is compiled, kept between its executions, and dropped with the program.

/// Counts the executions of one call site: start, start + 1, start + 2 …
struct Counter {
    next: AtomicI32,
}

#[xla_ffi::stateful(name = "counter")]
impl Counter {
    /// Runs once per call site of a compiled program.
    fn instantiate(start: i32) -> Result<Self> {
        if start < 0 {
            return Err(Error::invalid_argument(format!("`start` is {start}")));
        }
        Ok(Self {
            next: AtomicI32::new(start),
        })
    }

    /// Runs with each execution, perhaps on several threads at once.
    fn execute(&self, mut y: Out<i32, 0>) -> Result<()> {
        y.fill(self.next.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }
}

// Handlers that return before their results are written, with a promise and as an `async fn`.

fn delay(ms: i64) -> Result<Duration> {
    match u64::try_from(ms) {
        Ok(ms) => Ok(Duration::from_millis(ms)),
        Err(_) => Err(Error::invalid_argument(format!("`delay_ms` is {ms}"))),
    }
}

/// y = 2 x, written by another thread. The promise owns the operands until it is completed.
#[xla_ffi::handler(shape = "... -> ...")]
fn double_later(x: Buffer<f32>, y: Out<f32>, delay_ms: i64, later: Later) -> Result<()> {
    let delay = delay(delay_ms)?;
    let promise = later.promise((x, y));
    thread::spawn(move || {
        thread::sleep(delay);
        promise.complete_with(|(x, mut y)| {
            y.write_with(|i| 2.0 * x[i]);
            Ok(())
        });
    });
    Ok(())
}

/// y = 2 x, as an `async fn`, which may await any Rust future.
#[xla_ffi::handler(shape = "... -> ...")]
async fn double_async(x: Buffer<f32>, mut y: Out<f32>, delay_ms: i64) -> Result<()> {
    sleep(delay(delay_ms)?).await;
    y.write_with(|i| 2.0 * x[i]);
    Ok(())
}

/// Returns a future that completes after `time`. No async runtime is needed, because a separate thread wakes the
/// future.
fn sleep(time: Duration) -> impl std::future::Future<Output = ()> + Send {
    Sleep { time, until: None }
}

struct Sleep {
    time: Duration,
    until: Option<Instant>,
}

impl std::future::Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Poll::Ready(());
        }
        let time = self.time;
        let until = *self.until.get_or_insert_with(|| Instant::now() + time);
        let waker = context.waker().clone();
        thread::spawn(move || {
            thread::sleep(until.saturating_duration_since(Instant::now()));
            waker.wake();
        });
        Poll::Pending
    }
}

// A loop on the host's thread pool. The calling thread runs a part of the loop, so the loop also works if the pool is
// small, busy or missing.

/// y = exp(x) / Σ exp(x), over the last dimension: one row per task.
#[xla_ffi::handler(shape = "... n -> ... n")]
fn softmax(x: Buffer<f32>, mut y: Out<f32>, pool: ThreadPool) -> Result<()> {
    let n = x.dims().last().map_or(1, |n| *n.max(&1));
    let x = x.as_slice();
    pool.for_each_chunk(y.as_uninit(), n, |start, y| {
        let x = &x[start..][..y.len()];
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = x.iter().map(|x| (x - max).exp()).sum();
        for (x, y) in x.iter().zip(y) {
            y.write((x - max).exp() / sum);
        }
    });
    Ok(())
}

xla_ffi::library! { Counter, double_later, double_async, softmax }
