//! What is no handler.
fn f() {}

xla_ffi::library! { f }

fn main() {}
