//! State that is not what the stages take as `&self`.
use xla_ffi::prelude::*;
use xla_ffi::State;

#[derive(State)]
struct Other(i64);

struct Foo(i64);

#[xla_ffi::stateful]
impl Foo {
    fn instantiate(n: i64) -> Result<Other> {
        Ok(Other(n))
    }

    fn execute(&self, mut y: Out<i64, 0>) {
        y.fill(self.0);
    }
}

struct Nothing;

#[xla_ffi::stateful]
impl Nothing {
    fn instantiate() -> Result<()> {
        Ok(())
    }

    fn execute(&self) {}
}

// Nobody takes it as `&self`.
struct Whole;

#[xla_ffi::stateful]
impl Whole {
    fn instantiate(n: i64) -> Result<Other> {
        Ok(Other(n))
    }

    fn execute(state: xla_ffi::StateRef<Other>, mut y: Out<i64, 0>) {
        y.fill(state.0);
    }
}

fn main() {}
