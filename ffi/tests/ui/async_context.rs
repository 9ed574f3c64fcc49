//! What ends with the call cannot be kept by an async handler.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
async fn f(x: Buffer<'_, f32>, pool: ThreadPool<'_>) -> Result<()> {
    Ok(())
}

fn main() {}
