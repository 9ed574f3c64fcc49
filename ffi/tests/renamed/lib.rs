//! A crate of handlers for other libraries that renames its dependency `xla-ffi`.

/// The handlers.
pub mod ops {
    use my_ffi::{Attribute, Bind, HostType, prelude::*};

    /// A struct of attributes.
    #[derive(Attribute)]
    pub struct By {
        #[attr(default = 2)]
        by: i64,
    }

    /// A parameter made from a different one.
    #[derive(Bind)]
    #[bind(from = By)]
    pub struct Factor(i64);

    impl From<By> for Factor {
        fn from(by: By) -> Self {
            Self(by.by)
        }
    }

    /// An object of the program.
    #[derive(HostType)]
    pub struct Offset(pub i64);

    /// y = by * x
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
