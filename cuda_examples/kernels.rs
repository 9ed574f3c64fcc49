//! Handlers with small kernels: a kernel launch, state, scratch memory and command buffers.

use std::sync::Arc;
use xla_ffi::cuda::{Kernel, Module, Stream};
use xla_ffi::{DeviceBuffer, DeviceOut, Error, Launch, Result, Scratch, device::KernelArg};

const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.image"));
static MODULE: Module = Module::new(IMAGE);

// The example of XLA's custom-call documents on a GPU, `A[i] = B[i % 128] + C[i]`, for operands of any size.

static TILED_ADD: Kernel = MODULE.kernel("tiled_add");

/// Computes a[i] = b[i % m] + c[i].
#[xla_ffi::handler(platforms = ["cuda"], shape = "m, n -> n")]
fn tiled_add(
    b: DeviceBuffer<f32, 1>,
    c: DeviceBuffer<f32, 1>,
    a: DeviceOut<f32, 1>,
    stream: Stream,
) -> Result<()> {
    if b.is_empty() && !c.is_empty() {
        return Err(Error::invalid_argument(
            "`b` is empty: there is nothing to repeat",
        ));
    }
    let arguments = (&b, b.len() as u64, &c, &a, c.len() as u64);
    // SAFETY: the arguments have the kernel's parameter types; the kernel reads m and n elements and writes n.
    unsafe { TILED_ADD.launch(&stream, Launch::over(c.len(), 256), arguments) }
}

// A stateful handler: the compiled program keeps the coefficients and the module, which is loaded once per context.

/// The coefficients, as the kernel's argument: a struct of eight floats, passed by value.
#[derive(Clone, Copy)]
#[repr(C)]
struct Coefficients([f32; 8]);

// SAFETY: the kernel's parameter is a struct of eight floats, like this type.
unsafe impl KernelArg for Coefficients {
    type Value = Self;
    const IS_POINTER: bool = false;

    fn value(self) -> Self {
        self
    }
}

/// The state of the polynomial y = c[0] + c[1] x + c[2] x² + …
struct Polynomial {
    coefficients: Coefficients,
    degree: i32,
    kernel: Kernel,
}

#[xla_ffi::stateful(name = "polynomial", platforms = ["cuda"], shape = "... -> ...")]
impl Polynomial {
    /// Creates the state, once per call site, when the program is compiled.
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

    /// Loads the kernel on the device before the first execution, so that calls need not load it.
    fn initialize(&self, stream: Option<Stream>) -> Result<()> {
        if let Some(stream) = stream {
            self.kernel.load(stream.context()?)?;
        }
        Ok(())
    }

    fn execute(&self, x: DeviceBuffer<f32>, y: DeviceOut<f32>, stream: Stream) -> Result<()> {
        let arguments = (&x, &y, x.len() as u64, self.coefficients, self.degree);
        // SAFETY: the arguments have the kernel's parameter types; the kernel accesses the `len` elements of x and y.
        unsafe {
            self.kernel
                .launch(&stream, Launch::over(x.len(), 256), arguments)
        }
    }
}

// A handler with scratch memory: a sum in two kernels. The first kernel writes partial sums to memory from XLA.

static PARTIAL_SUMS: Kernel = MODULE.kernel("partial_sums");
static TOTAL: Kernel = MODULE.kernel("total");

/// Computes y, the sum of all elements of x.
#[xla_ffi::handler(platforms = ["cuda"])]
fn sum(x: DeviceBuffer<f32>, y: DeviceOut<f32, 0>, scratch: Scratch, stream: Stream) -> Result<()> {
    if x.is_empty() {
        return stream.fill_bytes(&y, 0);
    }
    let blocks = x.len().div_ceil(256).min(1024);
    let partial = scratch.array::<f32>(blocks)?;
    let first = (&x, x.len() as u64, &partial);
    // SAFETY: the arguments have the kernel's parameter types; the kernel writes one number per block to `partial`.
    unsafe { PARTIAL_SUMS.launch(&stream, Launch::blocks(blocks as u32, 256), first) }?;
    let second = (&partial, blocks as u32, &y);
    // SAFETY: the arguments have the kernel's parameter types; the kernel reads `blocks` numbers of `partial`.
    unsafe { TOTAL.launch(&stream, Launch::blocks(1, 256), second) }
}

// A handler that XLA may capture into a command buffer: each call launches the same kernel, without allocations or
// waits.

static AXPY: Kernel = MODULE.kernel("axpy");

/// Computes z = a x + y; `z` may be `y`.
struct Axpy;

#[xla_ffi::stateful(name = "axpy", platforms = ["cuda"], command_buffer_compatible, shape = "..., ... -> ...")]
impl Axpy {
    /// Loads the module before XLA captures a call, so that captured calls need not load it.
    fn initialize(stream: Option<Stream>) -> Result<()> {
        if let Some(stream) = stream {
            AXPY.load(stream.context()?)?;
        }
        Ok(())
    }

    fn execute(
        x: DeviceBuffer<f32>,
        y: DeviceBuffer<f32>,
        z: DeviceOut<f32>,
        a: f32,
        stream: Stream,
    ) -> Result<()> {
        let arguments = (a, &x, &y, &z, x.len() as u64);
        // SAFETY: the arguments have the kernel's parameter types; x, y and z have the `len` elements that it accesses.
        unsafe { AXPY.launch(&stream, Launch::over(x.len(), 256), arguments) }
    }
}

xla_ffi::library! { name = "cuda_kernels"; tiled_add, Polynomial, sum, Axpy }
