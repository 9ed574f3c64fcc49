//! Blocks of stages.
use xla_ffi::prelude::*;

struct NoExecute;

#[xla_ffi::stateful]
impl NoExecute {
    fn instantiate() -> Self {
        Self
    }
}

struct NoState;

#[xla_ffi::stateful]
impl NoState {
    fn execute(&self) -> Result<()> {
        Ok(())
    }
}

struct Early;

#[xla_ffi::stateful]
impl Early {
    fn instantiate(&self) -> Self {
        Self
    }

    fn execute(&self) {}
}

struct Mutable;

#[xla_ffi::stateful]
impl Mutable {
    fn instantiate() -> Self {
        Self
    }

    fn execute(&mut self) {}
}

fn main() {}
