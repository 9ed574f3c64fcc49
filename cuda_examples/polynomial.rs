//! A stateful handler: the coefficients and the module are kept by the compiled program, the kernel is
//! loaded once for each context.

use std::sync::Arc;
use xla_ffi::cuda::{Kernel, Module, Stream};
use xla_ffi::{DeviceBuffer, DeviceOut, Error, KernelArg, Launch, Result};

const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/polynomial.image"));

/// What the kernel takes by value: eight floats.
#[derive(Clone, Copy)]
#[repr(C)]
struct Coefficients([f32; 8]);

// SAFETY: the kernel declares a struct of eight floats.
unsafe impl KernelArg for Coefficients {
    type Value = Self;
    const IS_POINTER: bool = false;

    fn value(self) -> Self {
        self
    }
}

/// y = c[0] + c[1] x + c[2] x² + …
struct Polynomial {
    coefficients: Coefficients,
    degree: i32,
    kernel: Kernel,
}

#[xla_ffi::stateful(name = "polynomial", platforms = ["cuda"], shape = "... -> ...")]
impl Polynomial {
    /// Once for each call site, when the program is compiled.
    fn instantiate(coefficients: &[f32]) -> Result<Self> {
        let count = coefficients.len();
        if !(1..=8).contains(&count) {
            return Err(Error::invalid_argument(format!(
                "1 to 8 coefficients are possible, not {count}"
            )));
        }
        let mut values = [0.0; 8];
        values[..count].copy_from_slice(coefficients);
        let module = Arc::new(Module::new(IMAGE));
        Ok(Self {
            coefficients: Coefficients(values),
            degree: count as i32 - 1,
            kernel: module.shared_kernel("polynomial"),
        })
    }

    /// On the device, in front of the executions: nothing is left to load in the calls.
    fn initialize(&self, stream: Option<Stream>) -> Result<()> {
        if let Some(stream) = stream {
            self.kernel.load(stream.context()?)?;
        }
        Ok(())
    }

    fn execute(&self, x: DeviceBuffer<f32>, y: DeviceOut<f32>, stream: Stream) -> Result<()> {
        let arguments = (&x, &y, x.len() as u64, self.coefficients, self.degree);
        // SAFETY: the kernel's parameters; it touches `len` elements.
        unsafe {
            self.kernel
                .launch(&stream, Launch::over(x.len(), 256), arguments)
        }
    }
}

xla_ffi::library! { name = "cuda_polynomial"; Polynomial }
