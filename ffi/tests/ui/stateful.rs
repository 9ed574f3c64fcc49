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

struct Generic<T>(T);

#[xla_ffi::stateful]
impl<T> Generic<T> {
    fn execute() {}
}

struct Late;

#[xla_ffi::stateful]
impl Late {
    async fn instantiate() -> Self {
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

#[xla_ffi::stateful]
impl Clone for NoState {
    fn clone(&self) -> Self {
        Self
    }
}

#[xla_ffi::handler]
impl NoState {}

struct Sometimes;

#[xla_ffi::stateful]
impl Sometimes {
    fn execute(&self) {}

    #[cfg(feature = "gpu")]
    fn prepare() {}

    #[cfg(any())]
    fn helper() {}
}

fn main() {}
