//! User data.
use xla_ffi::prelude::*;

#[derive(xla_ffi::UserType)]
#[user_type(unsafe(name = "x", id = 0))]
struct Zero;

#[derive(xla_ffi::UserType)]
#[user_type(named = "x")]
struct Misspelt;

#[derive(xla_ffi::UserType)]
struct Generic<T>(T);

#[derive(xla_ffi::UserType)]
#[user_type(name = "x")]
struct Shared;

#[derive(xla_ffi::UserType)]
#[user_type(unsafe())]
struct Nothing;

struct Plain;

impl xla_ffi::UserType for Plain2 {
    fn host_type() -> &'static xla_ffi::HostType<Self> {
        static TYPE: xla_ffi::HostType<Plain2> = xla_ffi::HostType::user_data("x");
        &TYPE
    }
}

struct Plain2;

#[xla_ffi::handler]
fn f(data: UserData<Plain>) -> Result<()> {
    Ok(())
}

fn main() {}
