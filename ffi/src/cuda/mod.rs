//! CUDA handlers: XLA's stream and context, modules and kernels that are cached per context,
//! library handles, and NVRTC.
//!
//! ```
//! use xla_ffi::cuda::{Kernel, Module, Stream};
//! use xla_ffi::{DeviceBuffer, DeviceOut, Launch, Result};
//!
//! /// PTX, a cubin, a fat binary or CUDA C++: whatever the build put there.
//! static MODULE: Module = Module::new(b"extern \"C\" __global__ void scale(...) { ... }");
//! static SCALE: Kernel = MODULE.kernel("scale");
//!
//! #[xla_ffi::handler(platforms = ["cuda"], shape = "... -> ...")]
//! fn scale(x: DeviceBuffer<f32>, y: DeviceOut<f32>, factor: f32, stream: Stream) -> Result<()> {
//!     let arguments = (&x, &y, x.len() as u64, factor);
//!     // SAFETY: the kernel takes these arguments and touches `len` elements.
//!     unsafe { SCALE.launch(&stream, Launch::over(x.len(), 256), arguments) }
//! }
//! ```
//!
//! The driver is loaded by the first call that needs it. A library with this feature therefore
//! builds, loads and answers metadata queries on a machine without CUDA. On such a machine, calls
//! fail with an error that `libcuda.so.1` is not found.
//!
//! XLA owns the stream and the context, and this module never destroys them. Only
//! [`Stream::synchronize`] waits for the device. The stream's context determines the device of a
//! call; [`DeviceOrdinal`](crate::DeviceOrdinal) is a number among the devices of all processes.

mod context;
mod driver;
mod kernel;
mod module;
mod stream;

pub use context::{CudaContext, Current, PerContext};
#[doc(hidden)]
pub use driver::check;
pub use kernel::{Kernel, View};
pub use module::{Image, Module};
pub use stream::Stream;

/// The crate of CUDA bindings that this module uses. It covers functions that this module does not
/// wrap.
pub use cudarc;
