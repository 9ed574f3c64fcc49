//! Only the execute stage may go on after it has returned.
use xla_ffi::{Later, prelude::*};

struct Early;

#[xla_ffi::stateful]
impl Early {
    fn instantiate(later: Later) -> Result<Self> {
        let _ = later.promise(());
        Ok(Self)
    }

    fn execute(&self, later: Option<Later>) {
        drop(later);
    }
}

xla_ffi::library! { Early }

fn main() {}
