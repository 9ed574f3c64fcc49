//! Handlers that are linked into a program and registered when it starts.

use crate::host::{Bundle, Runtime, canonical_platform};
use std::sync::OnceLock;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// A handler of this program, created by [`register_handler!`](crate::register_handler).
#[derive(Debug)]
pub struct StaticHandler {
    name: &'static str,
    platform: &'static str,
    bundle: fn() -> Bundle,
}

impl StaticHandler {
    /// Creates a handler; for the macros.
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

    /// Returns the platform, in the original spelling.
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
/// Each function has to be a handler of the ABI, for example a symbol in C or C++. For functions with
/// `#[xla_ffi::handler]`, pass their name to `xla_ffi::internal::register_handler!` instead.
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
    /// Registers every handler that the program was linked with. A linker silently omits crates and static libraries
    /// that nothing refers to: check with [`Runtime::require`].
    ///
    /// # Errors
    /// The error of the first refused handler; the others are still registered.
    pub fn register_static(&self) -> Result<()> {
        let mut refused = None;
        for handler in inventory::iter::<StaticHandler> {
            let bundle = (handler.bundle)();
            let outcome = self.register(handler.name, handler.platform, bundle);
            refused = refused.or(outcome.err());
        }
        refused.map_or(Ok(()), Err)
    }

    /// Checks that handlers or legacy targets with these names are registered for a platform. Call it when the program
    /// starts, because a linker omits crates and static libraries that nothing refers to, including their handlers.
    ///
    /// ```
    /// let runtime = xla_ffi_runtime::Runtime::default();
    /// let error = runtime.require("Host", ["my_server.scale"]).unwrap_err();
    /// assert_eq!(error.code(), xla_ffi_runtime::ErrorCode::NotFound);
    /// ```
    ///
    /// # Errors
    /// `NOT_FOUND`, with all missing names and a remedy.
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
            "link them into the program: a Rust crate of handlers with `use its_name as _;`, a static C or C++ library as an              OBJECT library or with -Wl,--whole-archive (macOS: -force_load)",
        );
        Err(Error::new(
            ErrorCode::NotFound,
            format!(
                "not registered for platform '{platform}': '{}'; {remedy}",
                missing.join("', '")
            ),
        ))
    }

    /// Returns the program's own runtime, of the newest revision. It belongs to `XLA_FFI_GetApi`, with which C and C++
    /// handlers register themselves at program start.
    #[must_use]
    pub fn global() -> &'static Self {
        GLOBAL.get_or_init(Self::default)
    }

    /// Returns a hint if the program has a handler that this runtime lacks. The platform is canonical.
    pub(super) fn linked_elsewhere(&self, name: &str, platform: &str) -> Option<&'static str> {
        let mut linked = inventory::iter::<StaticHandler>.into_iter();
        if linked.any(|it| it.name == name && canonical_platform(it.platform) == platform) {
            return Some("the program is linked with it: register_static registers it");
        }
        // The lookup must not create the global runtime.
        let known = GLOBAL.get()?.shared().handlers.find(name, platform);
        known.map(|_| "the program's own runtime has it: Runtime::global(), in C xffi_rt_global()")
    }
}

static GLOBAL: OnceLock<Runtime> = OnceLock::new();
