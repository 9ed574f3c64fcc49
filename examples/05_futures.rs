//! Handlers that return before their results are there: by hand with a promise, and as `async fn`.
#![forbid(unsafe_code)]

use std::thread;
use std::time::Duration;

use xla_ffi::{Future, Later, prelude::*};

mod sleep;

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
    sleep::sleep(delay(delay_ms)?).await;
    y.write_with(|i| 2.0 * x[i]);
    Ok(())
}

xla_ffi::library! { double_later, double_async }
