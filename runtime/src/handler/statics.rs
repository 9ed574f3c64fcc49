//! Handlers that are linked into a program and registered when it starts.

use crate::host::{Bundle, Runtime, canonical_platform};
use std::sync::OnceLock;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// A handler that is linked into this program, created by [`register_handler!`](crate::register_handler).
#[derive(Debug)]
pub struct StaticHandler {
    name: &'static str,
    platform: &'static str,
    bundle: fn() -> Bundle,
}

impl StaticHandler {
    /// Creates a handler, for use by the macros.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(name: &'static str, platform: &'static str, bundle: fn() -> Bundle) -> Self {
        Self {
            name,
            platform,
            bundle,
        }
    }

    /// Returns the name under which the handler is registered.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the platform, as written in the registration.
    #[must_use]
    pub fn platform(&self) -> &'static str {
        self.platform
    }

    /// Returns the handler's functions.
    #[must_use]
    pub fn bundle(&self) -> Bundle {
        (self.bundle)()
    }
}

inventory::collect!(StaticHandler);

/// Registers handlers that are linked into the program, for [`Runtime::register_static`].
///
/// ```
/// # use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error};
/// # unsafe extern "C" fn scale(_: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error { std::ptr::null_mut() }
/// xla_ffi_runtime::register_handler!("scale", "Host", Execute = scale);
/// # fn main() {
/// let runtime = xla_ffi_runtime::Runtime::default();
/// # drop(runtime);
/// # }
/// ```
///
/// Each function must be a handler of the ABI, for example a C or C++ function. For functions with the attribute
/// `#[xla_ffi::handler]`, use `xla_ffi::internal::register_handler!` instead.
#[macro_export]
macro_rules! register_handler {
    ($name:expr, $platform:expr, $($stage:ident = $function:path),+ $(,)?) => {
        const _: () = {
            fn bundle() -> $crate::Bundle {
                let bundle = $crate::Bundle::default();
                $(
                    // SAFETY: the caller of the macro guarantees that the function is a handler.
                    let bundle = unsafe { bundle.with($crate::Stage::$stage, $function) };
                )+
                bundle
            }
            $crate::statics::submit! {
                $crate::StaticHandler::new($name, $platform, bundle)
            }
        };
    };
}

#[doc(hidden)]
pub use inventory::submit;

impl Runtime {
    /// Registers all handlers that are linked into the program. A linker silently omits crates and static libraries
    /// to which no code refers; use [`Runtime::require`] to check for them.
    ///
    /// # Errors
    /// The error of the first refused handler; the remaining handlers are still registered.
    pub fn register_static(&self) -> Result<()> {
        let mut refused = None;
        for handler in inventory::iter::<StaticHandler> {
            let bundle = (handler.bundle)();
            let outcome = self.register(handler.name, handler.platform, bundle);
            refused = refused.or(outcome.err());
        }
        refused.map_or(Ok(()), Err)
    }

    /// Returns an error if a handler or legacy target with one of these names is not registered for a platform. Call
    /// this function at program start, because a linker omits crates and static libraries to which no code refers,
    /// with their handlers.
    ///
    /// ```
    /// let runtime = xla_ffi_runtime::Runtime::default();
    /// let error = runtime.require("Host", ["my_server.scale"]).unwrap_err();
    /// assert_eq!(error.code(), xla_ffi_runtime::ErrorCode::NotFound);
    /// ```
    ///
    /// # Errors
    /// `NOT_FOUND`, with all missing names and instructions.
    pub fn require<'n>(
        &self,
        platform: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<()> {
        let platform = canonical_platform(platform);
        let shared = self.shared();
        let is_missing = |name: &&str| {
            shared.handlers.find(name, &platform).is_none()
                && shared.legacy.versions(name, &platform).is_empty()
        };
        let missing: Vec<_> = names.into_iter().filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut hints = missing
            .iter()
            .map(|name| self.linked_elsewhere(name, &platform));
        let remedy = hints.find_map(|hint| hint).unwrap_or(
            "link them into the program (a Rust crate with `use its_name as _;`, a static C or C++ library as an OBJECT library or with -Wl,--whole-archive; macOS: -force_load), or open and register their library",
        );
        Err(Error::new(
            ErrorCode::NotFound,
            format!(
                "not registered for platform '{platform}': '{}'; {remedy}",
                missing.join("', '")
            ),
        ))
    }

    /// Returns the global runtime of the program, of the newest revision. `XLA_FFI_GetApi` returns its function
    /// table, with which C and C++ handlers register themselves at program start.
    #[must_use]
    pub fn global() -> &'static Self {
        GLOBAL.get_or_init(Self::default)
    }

    /// Returns a hint for an error message if the global runtime has a handler that this runtime lacks. `platform` is
    /// canonical.
    pub(super) fn linked_elsewhere(&self, name: &str, platform: &str) -> Option<&'static str> {
        let mut linked = inventory::iter::<StaticHandler>.into_iter();
        if linked.any(|it| it.name == name && canonical_platform(it.platform) == platform) {
            return Some("the program is linked with it: register_static registers it");
        }
        // A lookup must not create the global runtime.
        let known = GLOBAL.get()?.shared().handlers.find(name, platform);
        known.map(|_| "the program's own runtime has it: Runtime::global(), in C xffi_rt_global()")
    }
}

static GLOBAL: OnceLock<Runtime> = OnceLock::new();
