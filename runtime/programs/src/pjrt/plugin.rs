//! A plugin: the shared library and its function table.

use super::api::Api;
use super::client::Client;
use super::initialised::INITIALISED;
use super::raw::{Counted, PluginInitialize, RawApi};
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use xla_ffi_runtime::__programs::load_for_good;
use xla_ffi_runtime::{Error, Result};

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
    /// `NOT_FOUND` for a missing file, `INVALID_ARGUMENT` for one that is no library or no plugin,
    /// `FAILED_PRECONDITION` for a PJRT older than 0.57, and what the plugin itself answers.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let within = |error: Error| error.within(format_args!("PJRT plugin {}", path.display()));
        let library = load_for_good(path).map_err(within)?;
        // SAFETY: only the address is taken.
        let entry = unsafe { library.get::<*mut c_void>(b"GetPjrtApi") };
        let entry = entry
            .map(|symbol| symbol.into_raw())
            .ok()
            .filter(|address| !address.is_null())
            .ok_or_else(|| {
                within(Error::invalid(
                    "it exports no GetPjrtApi, so it is not a PJRT plugin (nor is a jaxlib; \
                     xla_cpu_pjrt.so of the wheel xla-cpu-pjrt is one)",
                ))
            })?;
        // SAFETY: the function of this name has this type.
        let entry = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const RawApi>(entry)
        };
        // SAFETY: it takes nothing, and the library stays loaded.
        let table = unsafe { entry() };
        // SAFETY: a plugin's table lives as long as its library, which stays loaded.
        let api = unsafe { Api::new(table) }.map_err(within)?;
        let mut initialised = INITIALISED.lock().unwrap_or_else(PoisonError::into_inner);
        if !initialised.iter().any(|(known, _)| *known == api) {
            // SAFETY: the arguments are empty.
            unsafe { api.call(&mut PluginInitialize::new()) }.map_err(within)?;
            initialised.push((api, path.to_owned()));
        }
        Ok(Self {
            path: path.to_owned(),
            api,
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor version of PJRT that it speaks.
    #[must_use]
    pub fn version(&self) -> (i32, i32) {
        self.api.version()
    }

    /// A client with the plugin's default options; its first device is the one that programs run on.
    ///
    /// # Errors
    /// What the plugin answers, a machine without its device for instance.
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
