//! User data.
use xla_ffi::prelude::*;

#[derive(xla_ffi::UserType)]
#[user_type(name = "x", id = 0)]
struct Zero;

#[derive(xla_ffi::UserType)]
#[user_type(named = "x")]
struct Misspelt;

#[derive(xla_ffi::UserType)]
struct Generic<T>(T);

struct Plain;

#[xla_ffi::handler]
fn f(data: UserData<Plain>) -> Result<()> {
    Ok(())
}

fn main() {}
