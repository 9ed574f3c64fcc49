//! A shared library with a runtime of its own linked in: a handler of the internal API that no other
//! image's runtime can call.

use xla_ffi::{internal::Invocation, prelude::*};

#[xla_ffi::handler]
fn insider(mut y: Out<i64, 0>, call: Invocation) -> Result<()> {
    y.fill(call.run_id());
    Ok(())
}

#[xla_ffi::handler]
fn outsider(mut y: Out<i64, 0>) -> Result<()> {
    y.fill(1);
    Ok(())
}

xla_ffi::library! { insider, outsider }
