//! Handlers for RMS normalisation on a GPU, forward and backward, in f32 and bf16.

use xla_ffi::cuda::{Kernel, Module, Stream};
use xla_ffi::{
    DataType, Error, Launch, Result,
    device::{AnyDeviceBuffer, AnyDeviceOut},
};

static MODULE: Module = Module::new(include_bytes!(concat!(env!("OUT_DIR"), "/rms_norm.image")));

/// The kernels of RMS normalisation for one element type.
struct Kernels {
    forward_4: Kernel,
    forward_8: Kernel,
    forward_any: Kernel,
    backward_4: Kernel,
    backward_any: Kernel,
}

macro_rules! kernels {
    ($element:literal) => {
        Kernels {
            forward_4: MODULE.kernel(concat!("rms_norm_", $element, "_4")),
            forward_8: MODULE.kernel(concat!("rms_norm_", $element, "_8")),
            forward_any: MODULE.kernel(concat!("rms_norm_", $element, "_any")),
            backward_4: MODULE.kernel(concat!("rms_norm_grad_", $element, "_4")),
            backward_any: MODULE.kernel(concat!("rms_norm_grad_", $element, "_any")),
        }
    };
}

static F32: Kernels = kernels!("f32");
static BF16: Kernels = kernels!("bf16");

/// The distribution of the rows over threads and blocks; see `rms_norm.cu`.
struct Plan {
    /// The number of 16-byte vectors per thread.
    per_thread: usize,
    /// The number of threads that share a row.
    threads: u32,
    launch: Launch,
}

/// Returns the plan for `rows` rows of `n` elements of `element` bytes. At most `most` vectors of 16 bytes of
/// a row are in a thread's registers. Returns `None` if the rows are not whole vectors at aligned addresses
/// `at`.
fn plan(rows: usize, n: usize, element: usize, most: usize, at: &[usize]) -> Option<Plan> {
    let aligned = at.iter().all(|at| at.is_multiple_of(16));
    let vectors = n * element / 16;
    if !aligned || !(n * element).is_multiple_of(16) {
        return None;
    }
    let mut threads = 32;
    while threads < 1024 && threads * most < vectors {
        threads *= 2;
    }
    let per_thread = if vectors > 4 * threads { 8 } else { 4 };
    let rows_per_block = (128 / threads).max(1);
    let grid = u32::try_from(rows.div_ceil(rows_per_block)).ok()?;
    Some(Plan {
        per_thread,
        threads: threads as u32,
        launch: Launch::blocks(grid, (threads * rows_per_block) as u32),
    })
}

/// Returns the kernels for the element type of `x`, the number of rows, the row length, and the element size.
fn look(
    x: &AnyDeviceBuffer,
    others: &[DataType],
) -> Result<(&'static Kernels, usize, usize, usize)> {
    let (kernels, element) = match x.dtype() {
        DataType::F32 => (&F32, 4),
        DataType::BF16 => (&BF16, 2),
        _ => return Err(Error::invalid_argument("`x` is neither f32 nor bf16")),
    };
    if others.iter().any(|other| *other != x.dtype()) {
        return Err(Error::invalid_argument(
            "the operands differ in element type",
        ));
    }
    let n = x.dims().last().copied().unwrap_or_default();
    let rows = x.element_count().checked_div(n).unwrap_or(0);
    Ok((kernels, rows, n, element))
}

/// Returns a launch with one block per row, for the `_any` kernels.
fn a_block_a_row(rows: usize) -> Result<Launch> {
    let rows = i32::try_from(rows);
    let rows = rows.map_err(|_| Error::invalid_argument("there are more than 2147483647 rows"))?;
    Ok(Launch::blocks(rows as u32, 256))
}

/// Computes y = x / sqrt(mean(x²) + eps), over the last dimension.
#[xla_ffi::handler(platforms = ["cuda"], shape = "... n -> ... n")]
fn rms_norm(
    x: AnyDeviceBuffer,
    y: AnyDeviceOut,
    #[attr(default = 1e-5)] eps: f32,
    stream: Stream,
) -> Result<()> {
    let (kernels, rows, n, element) = look(&x, &[y.dtype()])?;
    let at = [x.as_device_ptr() as usize, y.as_device_mut_ptr() as usize];
    if let Some(plan) = plan(rows, n, element, 8, &at) {
        let kernel = match plan.per_thread {
            4 => &kernels.forward_4,
            _ => &kernels.forward_8,
        };
        let arguments = (&x, &y, rows as u64, n as u32, plan.threads, eps);
        // SAFETY: the arguments have the kernel's parameter types; the rows are whole, aligned vectors.
        return unsafe { kernel.launch(&stream, plan.launch, arguments) };
    }
    let arguments = (&x, &y, n as u64, eps);
    // SAFETY: the arguments have the kernel's parameter types; the kernel accepts rows of any length.
    unsafe {
        kernels
            .forward_any
            .launch(&stream, a_block_a_row(rows)?, arguments)
    }
}

/// Computes the gradient dx = r dy - x r³ mean(x dy), with r = 1 / sqrt(mean(x²) + eps).
#[xla_ffi::handler(platforms = ["cuda"], shape = "... n, ... n -> ... n")]
fn rms_norm_grad(
    x: AnyDeviceBuffer,
    dy: AnyDeviceBuffer,
    dx: AnyDeviceOut,
    #[attr(default = 1e-5)] eps: f32,
    stream: Stream,
) -> Result<()> {
    let (kernels, rows, n, element) = look(&x, &[dy.dtype(), dx.dtype()])?;
    let at = [
        x.as_device_ptr(),
        dy.as_device_ptr(),
        dx.as_device_mut_ptr(),
    ];
    if let Some(plan) = plan(rows, n, element, 4, &at.map(|at| at as usize)) {
        let arguments = (&x, &dy, &dx, rows as u64, n as u32, plan.threads, eps);
        // SAFETY: the arguments have the kernel's parameter types; the rows are whole, aligned vectors.
        return unsafe { kernels.backward_4.launch(&stream, plan.launch, arguments) };
    }
    let arguments = (&x, &dy, &dx, n as u64, eps);
    // SAFETY: the arguments have the kernel's parameter types; the kernel accepts rows of any length.
    unsafe {
        kernels
            .backward_any
            .launch(&stream, a_block_a_row(rows)?, arguments)
    }
}

xla_ffi::library! { name = "cuda_rms_norm"; rms_norm, rms_norm_grad }
