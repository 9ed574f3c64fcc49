//! Original custom calls, which are older than XLA FFI: C functions with one of five signatures, registered by name
//! and platform.
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
//!     // SAFETY: the operand and the result are one f32 each.
//!     unsafe { *out.cast::<f32>() = 2.0 * *(*ins).cast::<f32>() };
//! }
//!
//! # fn main() -> xla_ffi_runtime::Result<()> {
//! let runtime = Runtime::default();
//! // SAFETY: the signature is that of `double`.
//! runtime.register_legacy("double", "Host", unsafe { Function::cpu(double) })?;
//! let target = runtime.find_legacy("double", "cpu", ApiVersion::Original)?;
//! let (mut x, mut y) = (21.0_f32, 0.0_f32);
//! let operands = [Tree::Leaf((&raw mut x).cast())];
//! let result = Tree::Leaf((&raw mut y).cast());
//! // SAFETY: the pointers refer to numbers that exist until the call returns.
//! unsafe { Invocation::new(&target, &operands, &result).run() }?;
//! assert_eq!(y, 42.0);
//! # Ok(())
//! # }
//! ```

mod call;
#[cfg(feature = "libraries")]
mod library;
mod status;

pub use crate::host::legacy_targets::{ApiVersion, Function, Signature};
pub use call::{Invocation, Launched, TupleForm};
#[cfg(feature = "libraries")]
pub use library::Listed;
pub use status::Status;

use crate::host::legacy_targets::{is_host, versions};
use crate::host::{Runtime, canonical_platform};
use std::sync::Arc;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// A registered target, for calls under one API version.
///
/// ```
/// use std::ffi::c_void;
/// use xla_ffi_runtime::Runtime;
/// use xla_ffi_runtime::legacy::{ApiVersion, Function, Signature};
///
/// unsafe extern "C" fn nothing(_out: *mut c_void, _ins: *mut *const c_void) {}
///
/// let runtime = Runtime::default();
/// // SAFETY: the signature is that of the function.
/// runtime.register_legacy("nothing", "Host", unsafe { Function::cpu(nothing) })?;
/// let target = runtime.find_legacy("nothing", "cpu", ApiVersion::Original)?;
/// assert_eq!((target.name(), target.signature()), ("nothing", Signature::Cpu));
/// assert!(runtime.find_legacy("nothing", "cpu", ApiVersion::StatusReturning).is_err());
/// # Ok::<(), xla_ffi_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Target {
    name: Arc<str>,
    platform: Arc<str>,
    address: usize,
    signature: Signature,
    version: ApiVersion,
    runtime: Runtime,
}

impl Target {
    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the name of the target.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the canonical name of the platform.
    #[must_use]
    pub fn platform(&self) -> &str {
        &self.platform
    }

    /// Returns the signature with which the target is called.
    #[must_use]
    pub fn signature(&self) -> Signature {
        self.signature
    }

    /// Returns the API version for which the target was found.
    #[must_use]
    pub fn version(&self) -> ApiVersion {
        self.version
    }

    pub(super) fn address(&self) -> usize {
        self.address
    }
}

fn list(versions: &[ApiVersion]) -> String {
    let names: Vec<_> = versions.iter().map(|version| version.name()).collect();
    names.join(" or ")
}

impl Runtime {
    /// Registers a legacy target under a name for a platform. A repeated registration of the same function has no
    /// effect.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an empty name or a signature that the platform does not support; `ALREADY_EXISTS` if a
    /// different function has this name on the platform.
    pub fn register_legacy(&self, name: &str, platform: &str, function: Function) -> Result<()> {
        let platform = canonical_platform(platform);
        if name.is_empty() || platform.is_empty() {
            return Err(Error::invalid_argument(format!(
                "a legacy target needs a name and a platform, got '{name}' and '{platform}'"
            )));
        }
        if versions(&function, &platform).is_empty() {
            let other = if is_host(&platform) {
                "devices, \"CUDA\" for instance"
            } else {
                "the CPU, \"Host\""
            };
            let signature = function.signature.map_or("", Signature::parameters);
            return Err(Error::invalid_argument(format!(
                "legacy target '{name}': functions of the form void{signature} are called on \
                 {other}, not on platform '{platform}'"
            )));
        }
        let mut targets = self.shared().legacy.lock();
        let key = (name.to_owned(), platform);
        if targets.get(&key).is_some_and(|known| *known != function) {
            return Err(Error::new(
                ErrorCode::AlreadyExists,
                format!(
                    "legacy target '{name}' is registered for platform '{}' already, as another function",
                    key.1
                ),
            ));
        }
        targets.insert(key, function);
        Ok(())
    }

    /// Returns the target with this name on a platform, for calls under an API version.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown name, with a list of the registered targets; `INVALID_ARGUMENT` if the target does
    /// not support this API version.
    pub fn find_legacy(&self, name: &str, platform: &str, version: ApiVersion) -> Result<Target> {
        let platform = canonical_platform(platform);
        let Some(wanted) = version.signature(&platform) else {
            return Err(Error::invalid_argument(format!(
                "{version} names a handler of XLA FFI, which '{name}' is not: look it up with \
                 Runtime::find"
            )));
        };
        let targets = self.shared().legacy.lock();
        let Some(function) = targets.get(&(name.to_owned(), platform.clone())) else {
            let known: Vec<_> = targets
                .keys()
                .map(|(name, at)| format!("'{name}' on {at}"))
                .collect();
            drop(targets);
            let known = if known.is_empty() {
                "none".into()
            } else {
                known.join(", ")
            };
            let hint = if self.find(name, &platform).is_ok() {
                format!(
                    "; a handler of XLA FFI has this name: call it as {}",
                    ApiVersion::TypedFfi
                )
            } else {
                String::new()
            };
            return Err(Error::new(
                ErrorCode::NotFound,
                format!(
                    "no legacy target is registered as '{name}' for platform '{platform}'; there \
                     are: {known}{hint}"
                ),
            ));
        };
        if function.signature.is_some_and(|have| have != wanted) {
            let have = function.signature.map_or("", Signature::parameters);
            return Err(Error::invalid_argument(format!(
                "legacy target '{name}' on {platform} is a function of the form void{have}; a call \
                 with {version} would call it as {wanted}: call it with {}",
                list(&versions(function, &platform))
            )));
        }
        Ok(Target {
            name: name.into(),
            platform: platform.into(),
            address: function.address,
            signature: wanted,
            version,
            runtime: self.clone(),
        })
    }

    /// Returns the names, platforms and functions of all legacy targets, sorted by name.
    #[must_use]
    pub fn legacy_targets(&self) -> Vec<(String, String, Function)> {
        let targets = self.shared().legacy.lock();
        targets
            .iter()
            .map(|((name, platform), function)| (name.clone(), platform.clone(), *function))
            .collect()
    }
}
