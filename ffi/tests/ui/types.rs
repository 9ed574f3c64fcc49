//! State, user data and user-defined types.
#![allow(unused)]

/// Invalid `impl` blocks with stages.
mod stateful {
    use xla_ffi::prelude::*;

    struct NoExecute;

    #[xla_ffi::stateful]
    impl NoExecute {
        fn instantiate() -> Self {
            Self
        }
    }

    struct NoState;

    #[xla_ffi::stateful]
    impl NoState {
        fn execute(&self) {}
    }

    struct Early;

    #[xla_ffi::stateful]
    impl Early {
        fn instantiate(&self) -> Self {
            Self
        }

        fn execute(&self) {}
    }

    struct Mutable;

    #[xla_ffi::stateful]
    impl Mutable {
        fn instantiate() -> Self {
            Self
        }

        fn execute(&mut self) {}
    }
}

/// Only the execute stage can complete after it has returned.
mod later_stages {
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
}

/// State must be shareable between threads.
mod state_not_sync {
    use std::cell::Cell;
    use xla_ffi::prelude::*;

    struct Counter(Cell<i64>);

    #[xla_ffi::stateful]
    impl Counter {
        fn instantiate() -> Self {
            Self(Cell::new(0))
        }

        fn execute(&self) {}
    }

    #[derive(xla_ffi::HostType)]
    struct Raw(*mut u8);
}

/// Invalid types of user data.
mod host_type {
    use xla_ffi::prelude::*;

    #[derive(xla_ffi::HostType)]
    #[host_type(unsafe(name = "x", id = 0))]
    struct Zero;

    #[derive(xla_ffi::HostType)]
    #[host_type(named = "x")]
    struct Misspelt;

    #[derive(xla_ffi::HostType)]
    struct Generic<T>(T);

    #[derive(xla_ffi::HostType)]
    #[host_type(name = "x")]
    struct Shared;

    #[derive(xla_ffi::HostType)]
    #[host_type(unsafe())]
    struct Nothing;

    struct Plain;

    impl xla_ffi::HostType for Plain2 {
        fn registration() -> &'static xla_ffi::bind::Registration<Self> {
            static TYPE: xla_ffi::bind::Registration<Plain2> = xla_ffi::bind::Registration::user_data("x");
            &TYPE
        }
    }

    struct Plain2;

    #[xla_ffi::handler]
    fn f(data: UserData<Plain>) {}
}

/// `#[derive(Bind)]` requires a read-only source type.
mod derive_bind {
    use xla_ffi::{Bind, prelude::*};

    #[derive(Bind)]
    struct Nothing;

    #[derive(Bind)]
    #[bind(from = Buffer<'f, f32>)]
    struct NoTryFrom<'f>(&'f [f32]);

    #[derive(Bind)]
    #[bind(from = Out<'f, f32>)]
    struct Written<'f>(Out<'f, f32>);

    impl<'f> From<Out<'f, f32>> for Written<'f> {
        fn from(out: Out<'f, f32>) -> Self {
            Self(out)
        }
    }

    #[xla_ffi::handler]
    fn f(y: Written) {}
}

/// Sharing a name with other images is `unsafe`, which a crate may forbid.
mod host_type_forbidden {
    #![forbid(unsafe_code)]

    #[derive(xla_ffi::HostType)]
    struct Ours(u64);

    #[derive(xla_ffi::HostType)]
    #[host_type(unsafe(name = "x"))]
    struct Shared(u64);

    #[derive(xla_ffi::HostType)]
    #[host_type(unsafe(name = "x", id = 4242))]
    struct Numbered(u64);
}

fn main() {}
