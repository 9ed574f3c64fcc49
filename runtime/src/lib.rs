//! A host for XLA custom-call handlers that does not need XLA.
//!
//! The runtime implements every revision of the ABI that a released jaxlib has used, r0 to r10. A revision determines
//! the function table, the layouts of arguments, the size checks, and known bugs. It runs handlers in Rust, in C, and
//! in C++ with XLA's headers. Mistakes that would crash XLA are detected and reported as a [`Hazard`].
//!
//! ```no_run
//! use xla_ffi_runtime::{Attributes, Revision, Runtime, Shape, Stage, Tensor, DType};
//!
//! # fn main() -> xla_ffi_runtime::Result<()> {
//! let runtime = Runtime::new(Revision::R10);
//! let library = runtime.open("librms_norm.so")?;
//! let handler = library.handler("rms_norm", &[(Stage::Execute, "rms_norm")])?;
//! let executable = handler.instantiate(&Attributes::parse("{eps = 1.0e-5 : f32}")?)?;
//! let outcome = executable
//!     .call()
//!     .arg(Tensor::from_slice([2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?)
//!     .ret(Shape::new(DType::F32, [2, 2])?)
//!     .run()?;
//! println!("{:?}", outcome.rets[0].to_vec::<f32>());
//! # Ok(())
//! # }
//! ```
//!
//! Loading a library runs its code, so only load libraries that you trust. Mistakes of handlers do not crash the
//! runtime unless they corrupt memory.

#[cfg(not(unix))]
compile_error!(
    "the embedded runtime needs a POSIX system; handlers and their crate, xla-ffi, do not"
);

// The modules are layers, from top to bottom: internal; legacy; call; api; handler; context; host; frame; text;
// value; device; process. Each layer uses only lower layers.
mod api;
mod call;
mod context;
mod device;

mod frame;
mod handler;
mod host;
pub mod internal;
pub mod legacy;
mod process;

mod text;
mod value;

/// Items for use by the crate `xla-ffi-programs`.
#[doc(hidden)]
pub mod __programs {
    pub use crate::call::unwritten::Poison;
    pub use crate::process::guard::{Unwound, call_pointer, discard};
    #[cfg(feature = "libraries")]
    pub use crate::process::load::load_for_good;
    pub use crate::value::array_shape::Indices;
    pub use crate::value::attribute::is_bare;
}

/// Items for use by the crate `xla-ffi-runtime-c`.
#[doc(hidden)]
pub mod __c {
    pub use crate::process::guard::call_void;
    pub use crate::process::warn;
}

pub use api::{
    Collectives, Command, CommunicatorKey, DeviceCommunicator, KernelArg, Recorded, Recorder,
};
pub use call::{Call, Displaced, Outcome, PreparedCall, Ret, Settings, Stages, Unwritten};
pub use context::{Canceller, UserData};
pub use device::{CpuDevice, CpuStream, DeviceAllocator, DeviceStream, HostAllocator, Stream};
#[cfg(feature = "cuda")]
pub use device::{CudaDevice, CudaMemory, CudaStream};
pub use frame::print::describe;
pub use frame::{CallFrame, Stage};
#[cfg(feature = "libraries")]
pub use handler::Library;
#[doc(hidden)]
pub use handler::statics;
pub use handler::statics::StaticHandler;
pub use handler::{Executable, Handler};
pub use host::metadata;
pub use host::{
    Bundle, Execution, Executor, HandlerCounts, Metadata, Runtime, Traits, TypeInfo,
    canonical_platform, living_objects,
};
pub use process::guard::CONTAINS_CXX_EXCEPTIONS;

pub use text::{npy, spec};
pub use value::{
    ALIGNMENT, ArrayShape, Attribute, AttributeArray, Attributes, DType, LEAST_ALIGNMENT,
    MAX_DEPTH, MAX_NODES, ParseError, Shape, Tensor, Tree, ValueShape, dlpack, dtype, scalar_codec,
};
pub use xla_ffi_sys::{Element, Error, ErrorCode, Finding, Hazard, Result, Revision};

/// The README, as documentation whose examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
