//! A crate of handlers for other libraries that renames its dependency `xla-ffi`.

/// The handlers that other libraries list.
pub mod ops {
    use my_ffi::{Attribute, Bind, HostType, prelude::*};

    /// A struct of attributes.
    #[derive(Attribute)]
    pub struct By {
        #[attr(default = 2)]
        by: i64,
    }

    /// A parameter type that is derived from an attribute.
    #[derive(Bind)]
    #[bind(from = By)]
    pub struct Factor(i64);

    impl From<By> for Factor {
        fn from(by: By) -> Self {
            Self(by.by)
        }
    }

    /// User data that the program passes to handlers.
    #[derive(HostType)]
    pub struct Offset(pub i64);

    /// Computes y = by * x.
    #[my_ffi::handler(name = "renamed_scale", shape = "n -> n")]
    pub fn scale(
        x: Buffer<i64, 1>,
        mut y: Out<i64, 1>,
        factor: Option<Factor>,
        offset: Option<UserData<Offset>>,
    ) {
        let factor = factor.map_or(3, |factor| factor.0);
        y.write_with(|i| factor * x[i] + offset.map_or(0, |offset| offset.0));
    }

    /// A counter with a start value.
    pub struct Counter(i64);

    #[my_ffi::stateful]
    impl Counter {
        fn instantiate(start: i64) -> Self {
            Self(start)
        }

        fn execute(&self, mut y: Out<i64, 0>) {
            y.fill(self.0);
        }
    }
}

my_ffi::library! { name = "renamed"; ops::scale, ops::Counter }
