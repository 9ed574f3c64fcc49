//! Options of handlers and libraries.
#![allow(unused)]

/// Options that do not exist for handlers.
mod options {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler(shapes = "n -> n")]
    fn f(x: Buffer<f32>, y: Out<f32>) {}

    #[xla_ffi::handler(floor = "r11")]
    fn g(x: Buffer<f32>) {}

    #[xla_ffi::handler(platforms = "cpu")]
    fn h(x: Buffer<f32>) {}

    #[xla_ffi::handler]
    fn i(#[attr(defualt = 1)] n: i64) {}

    #[xla_ffi::handler]
    fn j(#[attr(flatten, narrow)] n: i64) {}
}

/// Invalid options for gradients, batches and layouts.
mod transforms {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler(vjp = "b", jvp = "j")]
    fn two_ways(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        y.copy_from(&x)
    }

    #[xla_ffi::handler(vjp = "b", transpose = "t")]
    fn transpose_of_nothing(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        y.copy_from(&x)
    }

    #[xla_ffi::handler(batch = "sometimes")]
    fn unknown_batching(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        y.copy_from(&x)
    }

    #[xla_ffi::handler(batch = "none", batch_with = "b")]
    fn batched_twice(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        y.copy_from(&x)
    }

    #[xla_ffi::handler]
    fn unknown_layout(#[operand(layout = "diagonal")] x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        y.copy_from(&x)
    }

    #[xla_ffi::handler]
    fn layout_of_an_attribute(#[operand(layout = "column")] n: i64, mut y: Out<f32>) -> Result<()> {
        y.fill(n as f32);
        Ok(())
    }
}

/// Shape contracts that do not match the handler, and sizes that they do not determine.
mod contract_sizes {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler(shape = "n, n -> n")]
    fn counts(_x: Buffer<f32>, _scale: f32, _y: Out<f32>) {}

    #[xla_ffi::handler(shape = "n m, m -> n")]
    fn entries(_x: Buffer<f32, 3>, _w: Option<Buffer<f32>>, _y: Out<f32>) {}

    #[xla_ffi::handler(shape = "n -> m")]
    fn nothing(_x: Buffer<f32>, _y: Out<f32>) {}

    #[xla_ffi::handler(shape = "n, m? -> m+1")]
    fn perhaps(_x: Buffer<f32>, _w: Option<Buffer<f32>>, _y: Out<f32>) {}

    type Ratio = f64;

    #[xla_ffi::handler(shape = "n -> k")]
    fn no_integer(_x: Buffer<f32>, _y: Out<f32>, _k: Ratio) {}

    #[xla_ffi::handler(shape = "n -> k")]
    fn may_be_absent(_x: Buffer<f32>, _y: Out<f32>, _k: Option<i64>) {}

    const ONE: i64 = 1;

    #[xla_ffi::handler(shape = "n -> k")]
    fn no_literal(_x: Buffer<f32>, _y: Out<f32>, #[attr(default = ONE)] _k: i64) {}
}

/// Invalid entries of `library!`.
mod library {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn exp(_x: Buffer<f32>, _y: Out<f32>) {}

    struct Solver;

    #[xla_ffi::stateful(name = "solver")]
    impl Solver {
        fn execute() {}
    }

    #[xla_ffi::handler(nme = "x")]
    fn broken() {}

    #[xla_ffi::handler]
    fn scale() {}

    #[xla_ffi::handler(name = "scale")]
    fn scale_again() {}

    xla_ffi::library! {}
    xla_ffi::library! { name = "two words"; exp }
    xla_ffi::library! { title = "x"; exp }
    xla_ffi::library! { #[inline] exp }
    xla_ffi::library! { exp, solver, broken, scale, absent, #[cfg(any())] gone }
    xla_ffi::library! { name = "twice"; scale, #[cfg(any())] gone, scale_again }
}

/// A function that is not a handler.
mod library_plain_function {
    fn f() {}

    xla_ffi::library! { f }
}

fn main() {}
