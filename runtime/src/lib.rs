//! A host for XLA custom-call handlers that needs no XLA.
//!
//! The runtime speaks every revision of the ABI that a released jaxlib has spoken, r0 to r10: the
//! table's length and order, the layouts of arguments, the size checks and the quirks are those of
//! the revision. Handlers of any origin run on it: Rust, plain C, and C++ built with upstream's
//! headers. What would crash a real host is detected and told as a [`Hazard`].
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
//! Loading a library runs its code: name only libraries that deserve it. Within that, the runtime
//! survives what handlers do wrong short of corrupting memory.

#[cfg(not(unix))]
compile_error!(
    "the embedded runtime needs a POSIX system; handlers and their crate, xla-ffi, do not"
);

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
mod status;
mod text;
mod value;

/// What the crate of programs needs and nobody else.
#[doc(hidden)]
pub mod __programs {
    pub use crate::call::unwritten::Poison;
    pub use crate::process::guard::{Unwound, call_pointer, discard};
    pub use crate::process::load::load_for_good;
    pub use crate::value::array_shape::Indices;
    pub use crate::value::attribute::is_bare;
}

/// What the functions for C need and nobody else.
#[doc(hidden)]
pub mod __c {
    pub use crate::host::log::warn;
    pub use crate::process::guard::call_void;
}

pub use api::collectives::{Collectives, CommunicatorKey};
pub use api::record::{Command, KernelArg, Recorded, Recorder};
pub use call::{Call, Displaced, Outcome, PreparedCall, Ret, Stages, Unwritten};
pub use context::cancellation::{Cancellation, Canceller};
pub use context::user_data::UserData;
pub use device::cpu::{CpuDevice, CpuStream};
#[cfg(feature = "cuda")]
pub use device::cuda::{CudaDevice, CudaMemory, CudaStream};
pub use device::{DeviceAllocator, DeviceStream, HostAllocator, Stream};
pub use frame::call_frame::CallFrame;
pub use frame::print::describe;
pub use frame::stage::Stage;
pub use handler::library::Library;
#[doc(hidden)]
pub use handler::statics;
pub use handler::statics::StaticHandler;
pub use handler::traits::Traits;
pub use handler::{Executable, Handler};
pub use host::bundle::Bundle;
pub use host::calls::HandlerCounts;
pub use host::metadata::{self, Metadata};
pub use host::platform::canonical_platform;
pub use host::pool::Executor;
pub use host::runtime::{Runtime, living_objects};
pub use host::types::TypeInfo;
pub use process::guard::CONTAINS_CXX_EXCEPTIONS;
pub use status::{Code, Error, Finding, Hazard, Result};
pub use text::{npy, spec};
pub use value::array_shape::ArrayShape;
pub use value::attribute::{Attribute, Attributes};
pub use value::attribute_array::AttributeArray;
pub use value::dlpack;
pub use value::dtype::{self, DType};
pub use value::memory::{ALIGNMENT, LEAST_ALIGNMENT};
pub use value::parse::ParseError;
pub use value::scalar_codec;
pub use value::shape::Shape;
pub use value::tensor::{Element, Tensor};
pub use value::tree::Tree;
pub use value::value_shape::{MAX_DEPTH, MAX_NODES, ValueShape};
pub use xla_ffi_sys::Revision;

/// What the package shows of itself.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
