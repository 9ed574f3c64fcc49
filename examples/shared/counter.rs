//! A stateful handler that counts, shared by two libraries: each has a type `Counter` of its own.

use std::sync::atomic::{AtomicI64, Ordering};

use xla_ffi::prelude::*;

static BUILT: AtomicI64 = AtomicI64::new(0);
static DROPPED: AtomicI64 = AtomicI64::new(0);

/// Counts the executions of one call site.
pub(crate) struct Counter {
    next: AtomicI64,
}

#[xla_ffi::stateful(name = "counter")]
impl Counter {
    fn instantiate(start: i64) -> Result<Self> {
        if start < 0 {
            return Err(Error::invalid_argument(format!(
                "start is {start}, below 0"
            )));
        }
        BUILT.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            next: AtomicI64::new(start),
        })
    }

    fn execute(&self, _x: Buffer<f32, 0>, mut y: Out<i64, 0>) -> Result<()> {
        y.fill(self.next.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

#[xla_ffi::handler]
pub(crate) fn counter_stats(mut y: Out<i64, 1>) -> Result<()> {
    y.copy_from(&[
        BUILT.load(Ordering::Relaxed),
        DROPPED.load(Ordering::Relaxed),
    ])?;
    Ok(())
}
