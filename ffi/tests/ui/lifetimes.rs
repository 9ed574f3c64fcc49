//! Values that cannot be kept, moved or written: operands end with their call.
#![allow(unused)]

/// Operands are only valid during the call, so they cannot escape.
mod escaping_operand {
    use std::sync::Mutex;
    use xla_ffi::prelude::*;

    static KEPT: Mutex<Vec<&'static [f32]>> = Mutex::new(Vec::new());

    #[xla_ffi::handler]
    fn f(x: Buffer<f32>) -> Result<()> {
        KEPT.lock().unwrap().push(x.as_slice());
        Ok(())
    }

    #[xla_ffi::handler]
    fn g(x: Buffer<f32>, pool: ThreadPool) -> Result<()> {
        pool.spawn(move || drop(x.len()))
    }

    #[xla_ffi::handler]
    async fn h(x: Buffer<f32>) -> Result<()> {
        std::thread::spawn(move || x.len());
        Ok(())
    }
}

/// Operands cannot be `'static` in any handler.
mod static_operand {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn f(x: Buffer<'static, f32>) -> Result<()> {
        std::thread::spawn(move || x.len());
        Ok(())
    }

    type Name = &'static str;

    #[xla_ffi::handler]
    async fn g(x: Buffer<'static, f32>, name: Name) -> Result<()> {
        std::thread::spawn(move || (x.len(), name));
        Ok(())
    }

    #[derive(xla_ffi::Attribute)]
    struct Options {
        name: Name,
    }
}

/// A result cannot be used twice.
mod result_twice {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn f(y: AnyOut) -> Result<()> {
        let a = y.typed::<f32, 1>()?;
        let b = y.typed::<f32, 1>()?;
        drop((a, b));
        Ok(())
    }

    #[xla_ffi::handler]
    fn g(mut y: Out<f32>) -> Result<()> {
        let a = y.as_uninit();
        let b = y.as_uninit();
        a[0].write(1.0);
        b[0].write(1.0);
        Ok(())
    }

    #[xla_ffi::handler]
    fn h(y: Out<f32>) -> Result<()> {
        let read: f32 = (y)[0];
        Ok(())
    }

    #[xla_ffi::handler]
    fn indexed(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        for i in 0..x.len() {
            y[i] = 2.0 * x[i];
        }
        Ok(())
    }

    #[xla_ffi::handler]
    fn iterated(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        for (y, x) in y.iter_mut().zip(x.iter()) {
            *y = 2.0 * x;
        }
        Ok(())
    }

    #[xla_ffi::handler]
    fn value(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        y.write_with(|i| 2.0 * x[i])
    }

    /// A handler that compiles, because the second `y` is a slice.
    #[xla_ffi::handler]
    fn hidden(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        let y = y.fill(0.0);
        y[0] = x[0];
        Ok(())
    }
}

/// An operand in device memory cannot be used as a slice.
mod device_slice {
    use xla_ffi::{DeviceBuffer, DeviceOut, prelude::*, device::AnyDeviceBuffer};

    #[xla_ffi::handler(platforms = ["cuda"])]
    fn reads(x: DeviceBuffer<f32>, mut y: DeviceOut<f32>) -> Result<()> {
        for (x, y) in x.as_slice().iter().zip(y.as_uninit()) {
            y.write(*x);
        }
        Ok(())
    }

    #[xla_ffi::handler(platforms = ["cuda"])]
    fn indexes(x: DeviceBuffer<f32>, any: AnyDeviceBuffer, mut y: DeviceOut<f32>) -> Result<()> {
        y.write_with(|i| x[i]);
        let _ = any.as_bytes();
        Ok(())
    }
}

/// An async handler cannot keep a parameter that ends with the call.
mod async_context {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    async fn f(x: Buffer<f32>, pool: ThreadPool) {}

    type Pool<'a> = ThreadPool<'a>;

    #[xla_ffi::handler]
    async fn alias(x: Buffer<f32>, pool: Pool) {}
}

/// The body of an async handler must be `Send`.
mod async_not_send {
    use std::rc::Rc;
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    async fn f(mut y: Out<f32>) -> Result<()> {
        let number = Rc::new(1.0);
        std::future::ready(()).await;
        y.fill(*number);
        Ok(())
    }
}

fn main() {}
