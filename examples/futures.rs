//! Handlers that return before their results are there: by hand with a promise, and as `async fn`.
#![forbid(unsafe_code)]

use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use xla_ffi::{Future, Later, prelude::*};

fn delay(ms: i64) -> Result<Duration> {
    match u64::try_from(ms) {
        Ok(ms) => Ok(Duration::from_millis(ms)),
        Err(_) => Err(Error::invalid_argument(format!("`delay_ms` is {ms}"))),
    }
}

/// y = 2 x, written by another thread. The promise owns the operands until it is completed.
#[xla_ffi::handler(shape = "... -> ...")]
fn double_later(x: Buffer<f32>, y: Out<f32>, delay_ms: i64, later: Later) -> Result<Future> {
    let delay = delay(delay_ms)?;
    let (promise, future) = later.promise((x, y));
    thread::spawn(move || {
        thread::sleep(delay);
        promise.complete_with(|(x, mut y)| {
            y.write_with(|i| 2.0 * x[i]);
            Ok(())
        });
    });
    Ok(future)
}

/// The same, awaiting any Rust future.
#[xla_ffi::handler(shape = "... -> ...")]
async fn double_async(x: Buffer<f32>, mut y: Out<f32>, delay_ms: i64) -> Result<()> {
    sleep(delay(delay_ms)?).await;
    y.write_with(|i| 2.0 * x[i]);
    Ok(())
}

/// A future that is done when the time has passed, without an async runtime, and not before another thread has woken it.
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

xla_ffi::library! { double_later, double_async }
