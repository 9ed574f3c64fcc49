//! State: made when a program is compiled, kept between its executions, dropped with it.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicI32, Ordering};

use xla_ffi::prelude::*;

/// Counts the executions of one call site: start, start + 1, start + 2 …
struct Counter {
    next: AtomicI32,
}

#[xla_ffi::stateful(name = "counter")]
impl Counter {
    /// Runs once for each call site of a compiled program.
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

xla_ffi::library! { Counter }
