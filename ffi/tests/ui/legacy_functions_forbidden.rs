//! A function that sees pointers is `unsafe`, which a crate may forbid.
#![forbid(unsafe_code)]
use std::ffi::c_void;

extern "C" fn bare(_out: *mut c_void, _args: *mut *const c_void) {}

xla_ffi::legacy! { target = unsafe cpu(bare) }
xla_ffi::adapt! { adapter = unsafe cpu(bare) }
xla_ffi::adapt! { other = safe cpu(bare) }

fn main() {}
