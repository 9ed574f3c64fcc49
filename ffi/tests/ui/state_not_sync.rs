//! State is shared between threads.
use std::cell::Cell;
use xla_ffi::prelude::*;

struct Counter(Cell<i64>);

#[xla_ffi::stateful]
impl Counter {
    fn instantiate() -> Self {
        Self(Cell::new(0))
    }

    fn execute(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(xla_ffi::UserType)]
struct Raw(*mut u8);

fn main() {}
