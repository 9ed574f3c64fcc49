//! Parameters and return types of handlers.
#![allow(unused)]

/// A handler cannot be generic.
mod generic {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn f<T: xla_ffi::Element>(x: Buffer<T>) {}
}

/// A handler with a `self` parameter, which is only allowed in stages.
mod parameter_self {
    use xla_ffi::prelude::*;

    struct S;

    impl S {
        #[xla_ffi::handler]
        fn f(&self, x: Buffer<f32>) {}
    }
}

/// Operand parameters must be values, not references.
mod parameter_reference {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn f(x: &Buffer<f32>) {}
}

/// A type that is not an operand, an attribute or a part of the context.
mod parameter_type {
    use xla_ffi::prelude::*;

    struct Mine;

    #[xla_ffi::handler]
    fn f(x: Buffer<f32>, mine: Mine) {}
}

/// Attributes must have a fixed size.
mod parameter_usize {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn f(n: usize) {}
}

/// Invalid element types of buffers.
mod element_type {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn f(x: Buffer<bool>, y: Out<f32>) {}

    #[xla_ffi::handler]
    fn of_results(x: Buffer<f32>, y: &mut [f32]) {}

    type Size = usize;

    #[xla_ffi::handler]
    fn alias(y: Out<Size>) {}
}

/// Invalid return types of handlers.
mod return_type {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn f(x: Buffer<f32>) -> f32 {
        0.0
    }

    #[xla_ffi::handler]
    fn g(x: Buffer<f32>) -> Result<Vec<f32>> {
        Ok(x.to_vec())
    }

    struct Mine;

    #[xla_ffi::handler]
    fn alias(x: Buffer<f32>) -> Mine {
        Mine
    }

    #[xla_ffi::handler]
    fn h(x: Buffer<f32>) -> std::result::Result<(), Mine> {
        Err(Mine)
    }

    #[xla_ffi::handler]
    async fn later(x: Buffer<f32>) -> Mine {
        Mine
    }
}

/// Optional operands must be last.
mod operand_order {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn f(x: Option<Buffer<f32>>, y: Buffer<f32>) {}

    #[xla_ffi::handler]
    fn g(xs: RemainingArgs, ys: RemainingArgs) {}

    xla_ffi::library! { f, g }
}

/// Remaining operands must be last and can be used only once.
mod remaining_optional {
    use xla_ffi::{Bind, prelude::*};

    #[xla_ffi::handler]
    fn over(rest: Option<RemainingArgs>, mut y: Out<f32, 1>) -> Result<()> {
        y.fill(rest.map_or(0.0, |rest| rest.len() as f32));
        Ok(())
    }

    #[derive(Bind)]
    #[bind(from = Option<RemainingArgs<'f>>)]
    struct Count(usize);

    impl<'f> TryFrom<Option<RemainingArgs<'f>>> for Count {
        type Error = Error;

        fn try_from(rest: Option<RemainingArgs<'f>>) -> Result<Self> {
            Ok(Self(rest.map_or(0, |rest| rest.len())))
        }
    }

    #[xla_ffi::handler]
    fn counted(count: Count, mut y: Out<f32, 1>) -> Result<()> {
        y.fill(count.0 as f32);
        Ok(())
    }
}

fn main() {}
