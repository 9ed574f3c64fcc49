//! A shared library with a separate copy of the runtime. The library has a handler of the internal
//! API, which the runtimes of other images cannot call.

#![deny(dead_code, unfulfilled_lint_expectations)]

use xla_ffi::{embed::Invocation, prelude::*};

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

/// A type that a program and its plugin share through one crate.
#[derive(xla_ffi::HostType)]
pub struct Session(pub i64);

/// Returns the name under which this image registers the type.
#[unsafe(no_mangle)]
pub extern "C" fn session_name() -> *const std::ffi::c_char {
    let name = <Session as xla_ffi::HostType>::registration().name();
    std::ffi::CString::new(name).expect("no NUL").into_raw()
}

/// The compiler warns about a handler that no library lists, and about no other handler.
#[expect(dead_code, reason = "not listed in `library!`")]
mod unlisted {
    #[xla_ffi::handler]
    pub(crate) fn forgotten() {}
}

#[xla_ffi::handler]
fn also_listed(mut y: Out<i64, 0>) {
    y.fill(2);
}

xla_ffi::library! {
    insider, outsider, xla_ffi_renamed::ops::scale, xla_ffi_renamed::ops::Counter,
    #[cfg(any())] nowhere::absent,
    #[cfg(all())] also_listed,
}
