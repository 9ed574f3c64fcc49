//! Shared libraries with handlers.

use super::Handler;
use crate::frame::Stage;
use crate::host::{Bundle, Runtime};
use crate::process::load::load_for_good;
use crate::process::{is_function, read_memory};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xla_ffi_sys::XLA_FFI_Handler;
use xla_ffi_sys::{Error, ErrorCode, Hazard, Result};

/// A loaded library. It stays loaded until the program ends, as in XLA, because handlers leave threads, state and
/// deleters that would outlive it.
///
/// ```
/// use xla_ffi_runtime::{ErrorCode, Runtime};
///
/// let missing = Runtime::default().open("no/such/library.so");
/// assert_eq!(missing.err().map(|error| error.code()), Some(ErrorCode::NotFound));
/// ```
#[derive(Clone)]
pub struct Library {
    runtime: Runtime,
    path: PathBuf,
    loaded: Arc<ManuallyDrop<libloading::os::unix::Library>>,
}

impl Library {
    pub(crate) fn open(runtime: &Runtime, path: &Path) -> Result<Self> {
        Ok(Self {
            runtime: runtime.clone(),
            path: path.to_owned(),
            loaded: load_for_good(path)?,
        })
    }

    /// Returns the runtime that the library was loaded for.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the address of an exported symbol.
    ///
    /// # Errors
    /// `NOT_FOUND` if the symbol does not exist.
    pub fn symbol(&self, name: &str) -> Result<*mut c_void> {
        // SAFETY: only the address is used.
        let found = unsafe { self.loaded.get::<*mut c_void>(name.as_bytes()) };
        let missing = |source: Option<libloading::Error>| {
            let message = format!("{} exports no symbol '{name}'", self.path.display());
            let error = Error::new(ErrorCode::NotFound, message);
            match source {
                Some(source) => error.with_source(source),
                None => error,
            }
        };
        let address = found.map_err(|error| missing(Some(error)))?.into_raw();
        if address.is_null() {
            Err(missing(None))
        } else {
            Ok(address)
        }
    }

    /// Returns a bundle of the functions with these symbols, one per stage.
    ///
    /// # Errors
    /// `NOT_FOUND` for a missing symbol.
    pub fn bundle(&self, stages: &[(Stage, &str)]) -> Result<Bundle> {
        let mut bundle = Bundle::default();
        for (stage, name) in stages {
            let address = self.symbol(name)?;
            // SAFETY: the caller guarantees that the symbol is a handler; libraries contain no types to check this.
            let handler = unsafe { std::mem::transmute::<*mut c_void, XLA_FFI_Handler>(address) };
            bundle = bundle.stage(*stage, Some(handler));
        }
        Ok(bundle)
    }

    /// Returns the handler that consists of the functions with these symbols.
    ///
    /// # Errors
    /// `NOT_FOUND` for missing symbols, and the errors of a registration with this revision.
    pub fn handler(&self, name: &str, stages: &[(Stage, &str)]) -> Result<Handler> {
        let bundle = self.bundle(stages)?;
        let shared = self.runtime.shared();
        Handler::new(shared, name, bundle)
    }

    /// Registers a user type by the symbols of its id and, if there is one, of its `TypeInfo`, and returns its number.
    /// Python does the same for libraries built with upstream's headers. A symbol is the object itself or a function
    /// without parameters that returns the object's address, as `XLA_FFI_DECLARE_TYPE_ID_SYMBOL` and
    /// `XLA_FFI_DECLARE_TYPE_INFO_SYMBOL` declare it.
    ///
    /// # Errors
    /// Missing symbols, functions that return null, and names or numbers that are
    /// taken.
    pub fn register_type(&self, name: &str, id: &str, info: Option<&str>) -> Result<i64> {
        self.register_type_with(name, id, info, |wanted, info| {
            // SAFETY: the library declares its own type.
            unsafe { self.runtime.register_type(name, wanted, info) }
        })
    }

    /// Registers a user type like [`Library::register_type`], by calling `register`.
    ///
    /// # Errors
    /// As for [`Library::register_type`], and errors of `register`.
    pub fn register_type_with(
        &self,
        name: &str,
        id: &str,
        info: Option<&str>,
        register: impl FnOnce(i64, crate::host::TypeInfo) -> Result<i64>,
    ) -> Result<i64> {
        let id = self.object(id)?.cast::<i64>();
        let info = info.map(|info| self.object(info)).transpose()?;
        let wanted = read_memory(id as usize).ok_or_else(|| {
            Error::invalid_argument(format!("the id of type '{name}' is not readable memory"))
        })?;
        let wanted = i64::from_ne_bytes(wanted);
        let deleter = match info {
            None => None,
            Some(info) => {
                let info = info.cast::<xla_ffi_sys::XLA_FFI_TypeInfo>();
                let bytes = read_memory::<24>(info as usize).ok_or_else(|| {
                    Error::hazard(Hazard::TypeInfo, "the type info is not readable memory")
                })?;
                // In r6 the struct has only the deleter; in later versions, a size and a chain come before it.
                let size = usize::from_ne_bytes([
                    bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
                ]);
                if size != 24 {
                    return Err(Error::invalid_argument(format!(
                        "the type info of '{name}' has struct_size {size}, expected 24"
                    )));
                }
                // SAFETY: the caller guarantees a type info, which has 24 readable bytes.
                unsafe { (*info).deleter }
            }
        };
        let number = register(wanted, crate::host::TypeInfo::new(deleter))?;
        // SAFETY: the caller guarantees that the symbol is a type id, an i64; hosts write the number there.
        unsafe { id.write(number) };
        Ok(number)
    }

    /// Returns the object of a symbol: the symbol itself, or the object whose address it returns.
    fn object(&self, name: &str) -> Result<*mut c_void> {
        let address = self.symbol(name)?;
        if !is_function(address as usize) {
            return Ok(address);
        }
        // SAFETY: the caller guarantees a symbol of a type; such functions have no parameters and return a pointer.
        let function =
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> *mut c_void>(address) };
        let object = function();
        if object.is_null() {
            return Err(Error::invalid_argument(format!(
                "{} exports '{name}' as a function, which returns null and not the address of a \
                 type id or type info",
                self.path.display()
            )));
        }
        Ok(object)
    }
}

impl Runtime {
    /// Loads a library into this process, where its constructors run, and may crash or hang. A file that is loaded
    /// already returns the same library. If the file was replaced since then, the new file is loaded, and the earlier
    /// library keeps its old code.
    ///
    /// The library's code runs in this process, and symbols that are used as handlers, targets or types are called as
    /// such. Only open files that you trust.
    ///
    /// # Errors
    /// `NOT_FOUND` for a missing file. `INVALID_ARGUMENT` for a file that is not a library for this machine. The
    /// loader's message for missing symbols.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Library> {
        Library::open(self, path.as_ref())
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
