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

/// A loaded library. It stays loaded until the program ends, as in XLA, because the library's threads, state and
/// deleters may be used until then.
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

    /// Returns the runtime for which the library was loaded.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the path of the library's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the address of an exported symbol of the library.
    ///
    /// # Errors
    /// `NOT_FOUND` if the symbol does not exist.
    pub fn symbol(&self, name: &str) -> Result<*mut c_void> {
        // SAFETY: the symbol's address is not dereferenced.
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

    /// Returns a bundle of the library's functions with these symbols, one function per stage.
    ///
    /// # Errors
    /// `NOT_FOUND` for a missing symbol.
    pub fn bundle(&self, stages: &[(Stage, &str)]) -> Result<Bundle> {
        let mut bundle = Bundle::default();
        for (stage, name) in stages {
            let address = self.symbol(name)?;
            // SAFETY: `Runtime::open` requires a trusted library, whose symbols are used as the caller names them.
            // Libraries contain no types with which this could be checked.
            let handler = unsafe { std::mem::transmute::<*mut c_void, XLA_FFI_Handler>(address) };
            bundle = bundle.stage(*stage, Some(handler));
        }
        Ok(bundle)
    }

    /// Returns a handler that consists of the library's functions with these symbols.
    ///
    /// # Errors
    /// `NOT_FOUND` for missing symbols, and the errors of [`Runtime::handler`].
    pub fn handler(&self, name: &str, stages: &[(Stage, &str)]) -> Result<Handler> {
        let bundle = self.bundle(stages)?;
        let shared = self.runtime.shared();
        Handler::new(shared, name, bundle)
    }

    /// Registers a user type and returns its number. `id` is the symbol of the type's id, `info` that of its
    /// `TypeInfo`. Python programs register the types of libraries that use XLA's headers in this way. A symbol is
    /// the object itself, or a function without parameters that returns the object's address. The macros
    /// `XLA_FFI_DECLARE_TYPE_ID_SYMBOL` and `XLA_FFI_DECLARE_TYPE_INFO_SYMBOL` declare such functions.
    ///
    /// # Errors
    /// `NOT_FOUND` for missing symbols; errors for functions that return null, and for names or numbers that are
    /// already registered.
    pub fn register_type(&self, name: &str, id: &str, info: Option<&str>) -> Result<i64> {
        self.register_type_with(name, id, info, |wanted, info| {
            // SAFETY: the library declares the type, its id and its deleter.
            unsafe { self.runtime.register_type(name, wanted, info) }
        })
    }

    /// Registers a user type like [`Library::register_type`], with a function `register` instead of the runtime's
    /// registry.
    ///
    /// # Errors
    /// The errors of [`Library::register_type`], and errors of `register`.
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
                // In r6, the struct contains only the deleter. In later revisions, a size and an extension chain
                // precede the deleter.
                let size = usize::from_ne_bytes([
                    bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
                ]);
                if size != 24 {
                    return Err(Error::invalid_argument(format!(
                        "the type info of '{name}' has struct_size {size}, expected 24"
                    )));
                }
                // SAFETY: `info` is the symbol of a `TypeInfo`, which has 24 readable bytes.
                unsafe { (*info).deleter }
            }
        };
        let number = register(wanted, crate::host::TypeInfo::new(deleter))?;
        // SAFETY: `id` is the symbol of a type id, to which hosts write the number.
        unsafe { id.write(number) };
        Ok(number)
    }

    /// Returns the address of the object that a symbol denotes: the symbol itself, or the object whose address the
    /// symbol's function returns.
    fn object(&self, name: &str) -> Result<*mut c_void> {
        let address = self.symbol(name)?;
        if !is_function(address as usize) {
            return Ok(address);
        }
        // SAFETY: the symbol declares a type. If it is a function, it has no parameters and returns a pointer.
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
    /// Loads a library into this process. The library's constructors run, and may crash or hang. If the file is
    /// already loaded, returns the same library. If the file was replaced after it was loaded, loads the new file;
    /// the earlier library keeps its old code.
    ///
    /// The library's code runs in this process. Symbols that the program uses as handlers, legacy targets or types
    /// are called without a check of their signatures. Only open files that you trust.
    ///
    /// # Errors
    /// `NOT_FOUND` for a missing file. `INVALID_ARGUMENT` for a file that is not a library for this machine. If the
    /// library lacks symbols, the error contains the loader's message.
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
