//! Methods are stages.
use xla_ffi::prelude::*;

struct S;

impl S {
    #[xla_ffi::handler]
    fn f(&self, x: Buffer<f32>) -> Result<()> {
        Ok(())
    }
}

fn main() {}
