//! Device handlers on CUDA: XLA's own stream and context, modules and kernels cached for each
//! context, library handles, NVRTC.
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
//! The driver is loaded when the first call needs it, so a library with this feature builds, loads
//! and answers metadata calls on a machine without CUDA; a call there says that `libcuda.so.1` is
//! not found.
//!
//! XLA owns the stream and the context: nothing here destroys them, and nothing here waits unless
//! [`Stream::synchronize`] is asked to. Which device a call runs on is what the stream's context
//! says: [`DeviceOrdinal`](crate::DeviceOrdinal) is a number among all processes' devices.

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

/// The bindings that this module is made of, for what it does not wrap.
pub use cudarc;
