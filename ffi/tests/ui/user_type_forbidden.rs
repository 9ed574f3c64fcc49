//! A name that others share is `unsafe`, which a crate may forbid.
#![forbid(unsafe_code)]

#[derive(xla_ffi::UserType)]
struct Ours(u64);

#[derive(xla_ffi::UserType)]
#[user_type(unsafe(name = "x"))]
struct Shared(u64);

#[derive(xla_ffi::UserType)]
#[user_type(unsafe(name = "x", id = 4242))]
struct Numbered(u64);

fn main() {}
