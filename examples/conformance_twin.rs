//! A second library with handlers and a state type that are called as those of `conformance`.

use xla_ffi::prelude::*;

#[path = "shared/counter.rs"]
mod counter;

#[xla_ffi::handler(shape = "... -> ...")]
fn scale(x: Buffer<f32>, mut y: Out<f32>, factor: f32) -> Result<()> {
    y.write_with(|i| x[i] * factor + 1.0);
    Ok(())
}

xla_ffi::library! { scale, counter::Counter, counter::counter_stats }
