//! The custom calls that came before XLA FFI: bare functions, registered by name and platform,
//! called in one of five ways.
//!
//! | on | API version | function |
//! |---|---|---|
//! | CPU | `API_VERSION_ORIGINAL` | `void(void* out, const void** in)` |
//! | CPU | `API_VERSION_STATUS_RETURNING` | `void(void* out, const void** in, XlaCustomCallStatus*)` |
//! | devices | `API_VERSION_ORIGINAL` | `void(stream, void** buffers, const char* opaque, size_t len)` |
//! | devices | `API_VERSION_STATUS_RETURNING` | the same with a last `XlaCustomCallStatus*` |
//! | CPU | `API_VERSION_STATUS_RETURNING_UNIFIED` | `void(void* out, const void** in, const char* opaque, size_t len, XlaCustomCallStatus*)` |
//! | devices | `API_VERSION_STATUS_RETURNING_UNIFIED` | as with `API_VERSION_STATUS_RETURNING` |
//!
//! ```
//! use xla_ffi_runtime::legacy::{ApiVersion, Function, Invocation};
//! use xla_ffi_runtime::{Runtime, Tree};
//! use std::ffi::c_void;
//!
//! unsafe extern "C" fn double(out: *mut c_void, ins: *mut *const c_void) {
//!     // SAFETY: one f32 in, one f32 out.
//!     unsafe { *out.cast::<f32>() = 2.0 * *(*ins).cast::<f32>() };
//! }
//!
//! # fn main() -> xla_ffi_runtime::Result<()> {
//! let runtime = Runtime::default();
//! // SAFETY: `double` is called as it is declared.
//! runtime.register_legacy("double", "Host", unsafe { Function::cpu(double) })?;
//! let target = runtime.find_legacy("double", "cpu", ApiVersion::Original)?;
//! let (mut x, mut y) = (21.0_f32, 0.0_f32);
//! let operands = [Tree::Leaf((&raw mut x).cast())];
//! let result = Tree::Leaf((&raw mut y).cast());
//! // SAFETY: the pointers name what `double` expects, until the call is over.
//! unsafe { Invocation::new(&target, &operands, &result).run() }?;
//! assert_eq!(y, 42.0);
//! # Ok(())
//! # }
//! ```

mod call;
mod library;
mod registry;
mod status;
mod targets;
mod underway;

pub use crate::host::legacy_targets::{ApiVersion, Function, Signature};
pub use call::{Invocation, Launched, TupleForm};
pub use library::Listed;
pub use registry::Target;
pub use status::Status;
pub(crate) use targets::Targets;
