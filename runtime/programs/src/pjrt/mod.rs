//! XLA without Python: a PJRT plugin compiles and runs programs that call the handlers of any library.
//!
//! A plugin is a shared library that exports `GetPjrtApi`. XLA's CPU backend is `xla_cpu_pjrt.so` in the wheel
//! `xla-cpu-pjrt`; its CUDA backend is `xla_cuda_plugin.so` in the wheel `jax-cuda13-pjrt`.
//!
//! ```no_run
//! use xla_ffi_programs::pjrt::Plugin;
//! use xla_ffi_runtime::{DType, Runtime, Shape, Stage, Tensor};
//!
//! # fn main() -> xla_ffi_runtime::Result<()> {
//! let client = Plugin::load("xla_cpu_pjrt.so")?.client()?;
//! let library = Runtime::default().open("liboperands.so")?;
//! client.register("add", &library.bundle(&[(Stage::Execute, "operands__tiled_add")])?)?;
//! let x = Tensor::from_slice([2], &[1.0_f32, 2.0])?;
//! let results = client
//!     .call("add")
//!     .args([x.clone(), x])
//!     .ret(Shape::new(DType::F32, [2])?)
//!     .run()?;
//! assert_eq!(results[0].to_vec::<f32>().unwrap(), [2.0, 4.0]);
//! # Ok(())
//! # }
//! ```
//!
//! [`Client::call`] builds a program of one call; [`Client::compile`] compiles any StableHLO. To run a
//! [`Program`](crate::Program) in a plugin instead of on the embedded runtime, set
//! [`Options::client`](crate::Options::client).
//!
//! Handlers and types are registered with the plugin's XLA, for all clients of the plugin, until the program ends.
//! Plugins need PJRT 0.57 or later; [`Client::register`] also needs an FFI extension with a register function.

use api::{Api, INITIALISED};
use raw::{PluginInitialize, RawApi, SizedStruct};
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use xla_ffi_runtime::__programs::load_for_good;
use xla_ffi_runtime::{Error, Result};

/// The chapter of the book, whose code is compiled as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/pjrt.md")]
mod chapter {}

mod api;
mod bootstrap;
mod buffer;
mod call;
mod client;
mod executable;
mod extension;
mod handles;
pub(crate) mod legacy;
mod raw;

pub use buffer::Buffer;
pub use call::Call;
pub use client::Client;
pub use executable::{Launch, Loaded};

/// A PJRT plugin. It stays loaded until the program ends.
///
/// ```
/// use xla_ffi_programs::pjrt::Plugin;
///
/// let missing = Plugin::load("no/such/plugin.so").err().unwrap();
/// assert!(missing.to_string().contains("no/such/plugin.so"), "{missing}");
/// ```
#[derive(Clone)]
pub struct Plugin {
    path: PathBuf,
    api: Api,
}

impl Plugin {
    /// Loads a plugin and initialises it.
    ///
    /// # Errors
    /// `NOT_FOUND` if the file is missing. `INVALID_ARGUMENT` if the file is not a library or not a plugin.
    /// `FAILED_PRECONDITION` if the plugin's PJRT version is less than 0.57. Errors of the plugin.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let within = |error: Error| error.within(format_args!("PJRT plugin {}", path.display()));
        let library = load_for_good(path).map_err(within)?;
        // SAFETY: the symbol's address is not dereferenced.
        let entry = unsafe { library.get::<*mut c_void>(b"GetPjrtApi") };
        let entry = entry
            .map(|symbol| symbol.into_raw())
            .ok()
            .filter(|address| !address.is_null())
            .ok_or_else(|| {
                within(Error::invalid_argument(
                    "it exports no GetPjrtApi, so it is not a PJRT plugin (nor is a jaxlib; \
                     xla_cpu_pjrt.so of the wheel xla-cpu-pjrt is one)",
                ))
            })?;
        // SAFETY: the exported function `GetPjrtApi` has this type.
        let entry = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const RawApi>(entry)
        };
        // SAFETY: `GetPjrtApi` has no parameters, and the library stays loaded.
        let table = unsafe { entry() };
        // SAFETY: a plugin's table is valid while its library is loaded, and the library stays loaded.
        let api = unsafe { Api::new(table) }.map_err(within)?;
        let mut initialised = INITIALISED.lock().unwrap_or_else(PoisonError::into_inner);
        if !initialised.iter().any(|(known, _)| *known == api) {
            // SAFETY: the arguments consist only of their size.
            unsafe { api.call(&mut PluginInitialize::new()) }.map_err(within)?;
            initialised.push((api, path.to_owned()));
        }
        Ok(Self {
            path: path.to_owned(),
            api,
        })
    }

    /// Returns the path of the plugin's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the major and minor version of PJRT that the plugin implements, for example (0, 72).
    #[must_use]
    pub fn version(&self) -> (i32, i32) {
        self.api.version()
    }

    /// Creates a client with the plugin's default options. Programs run on the client's first device.
    ///
    /// # Errors
    /// Errors of the plugin, for example if the machine lacks the device.
    pub fn client(&self) -> Result<Client> {
        Client::new(self.api)
            .map_err(|error| error.within(format_args!("PJRT plugin {}", self.path.display())))
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("path", &self.path)
            .field("version", &self.version())
            .finish()
    }
}

#[doc(hidden)]
pub mod unguarded {
    //! Functions that use a plugin without the guards of this module, for the check of plugins (`tests/hosts`) and
    //! for test plugins. They are not part of the public interface.

    use super::{Client, Loaded};
    use xla_ffi_runtime::Result;
    use xla_ffi_sys::XLA_FFI_Handler;

    /// Registers an execute stage with the plugin's FFI extension. The plugin calls the handler immediately, and may
    /// report success although XLA refused the registration.
    ///
    /// # Safety
    /// The function must be a handler and stay loaded.
    ///
    /// # Errors
    /// Errors of the plugin.
    pub unsafe fn register(client: &Client, name: &str, handler: XLA_FFI_Handler) -> Result<()> {
        let extension = client.extension()?;
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { extension.register_handler(name, client.platform(), handler) }
    }

    /// Runs a program without arguments, without an execution context. Some plugins crash without a context if a
    /// handler requests user data.
    ///
    /// # Errors
    /// Errors of the plugin.
    pub fn run_without_context(program: &Loaded) -> Result<()> {
        program.launch().without_context().run().map(|_| ())
    }
}
