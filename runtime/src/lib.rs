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

mod array_shape;
mod attribute;
mod call;
mod collectives;
mod cpu_device;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod display;
pub mod dtype;
mod extension;
mod foreign;
mod guard;
mod handler;
mod host;
pub mod internal;
mod isolate;
pub mod legacy;
mod library;
pub mod metadata;
mod mlir;
pub mod npy;
pub mod number;
mod parse;
mod record;
mod runtime;
mod shape;
pub mod spec;
#[doc(hidden)]
pub mod statics;
mod status;
mod tensor;
mod tree;
mod types;
mod user_data;
mod value_shape;

pub use array_shape::ArrayShape;
/// What the crate of programs needs and nobody else.
#[doc(hidden)]
pub mod __programs {
    pub use crate::array_shape::Indices;
    pub use crate::attribute::is_bare;
    pub use crate::call::unwritten::Poison;
    pub use crate::guard::{Unwound, call_pointer, discard};
    pub use crate::library::load_for_good;
}

pub use attribute::{Attribute, Attributes};
pub use call::frame::CallFrame;
pub use call::print::describe;
pub use call::{Call, Outcome, PreparedCall, Ret, Stages};
pub use collectives::{Collectives, CommunicatorKey};
pub use cpu_device::{CpuDevice, CpuStream};
#[cfg(feature = "cuda")]
pub use cuda::{CudaDevice, CudaMemory, CudaStream};
pub use device::{DeviceAllocator, DeviceStream, HostAllocator, Stream};
pub use dtype::DType;
pub use guard::CONTAINS_CXX_EXCEPTIONS;
pub use handler::{Bundle, Executable, Handler, Stage};
pub use isolate::isolated;
pub use library::{Library, PROBE_LIMIT};
pub use metadata::Metadata;
pub use parse::ParseError;
pub use record::{Command, KernelArg, Recorded, Recorder};
pub use runtime::{Runtime, canonical_platform, living_objects};
pub use shape::Shape;
pub use statics::StaticHandler;
pub use status::{Code, Error, Finding, Hazard, Result};
pub use tensor::{ALIGNMENT, Element, Tensor};
pub use tree::{Nodes, Tree};
pub use types::TypeInfo;
pub use user_data::UserData;
pub use value_shape::{MAX_DEPTH, MAX_NODES, ValueShape};
pub use xla_ffi_sys::Revision;
