//! Shared libraries with handlers.

use crate::handler::{Bundle, Handler, Stage};
use crate::isolate::isolated;
use crate::metadata;
use crate::{Code, Error, Hazard, Result, Runtime};
use std::ffi::c_void;
use std::fs::File;
use std::io::Read;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use xla_ffi_sys::XLA_FFI_Handler;

/// How long a library may take to load, and a handler to answer the metadata call.
pub const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// A loaded library. It stays loaded until the program ends, as in XLA: handlers leave threads,
/// state and deleters behind that would outlive it.
///
/// ```
/// use xla_ffi_runtime::{Code, Runtime};
///
/// let missing = Runtime::default().open("no/such/library.so");
/// assert_eq!(missing.err().map(|error| error.code()), Some(Code::NotFound));
/// ```
#[derive(Clone)]
pub struct Library {
    runtime: Runtime,
    path: PathBuf,
    loaded: Arc<ManuallyDrop<libloading::os::unix::Library>>,
}

/// Taken while a library is loaded, and across a fork: a child that is forked while another thread
/// loads one finds the loader half-way and dies in its own first load.
static LOADING: Mutex<()> = Mutex::new(());

/// Keeps other threads from loading libraries.
pub(crate) fn hold() -> MutexGuard<'static, ()> {
    LOADING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn load(path: &Path) -> std::result::Result<libloading::os::unix::Library, libloading::Error> {
    // A bare name would be searched for in the system's folders; a path never is.
    let path = if path.components().count() == 1 {
        Path::new(".").join(path)
    } else {
        path.into()
    };
    let _held = hold();
    let flags = libloading::os::unix::RTLD_NOW | libloading::os::unix::RTLD_LOCAL;
    // SAFETY: running a library's code is what this runtime is for; that the library deserves it is
    // the judgement of whoever names it.
    unsafe { libloading::os::unix::Library::open(Some(path), flags) }
}

/// Tells what is wrong with a file that can be no library, in words better than the loader's.
fn inspect_file(path: &Path) -> Result<()> {
    let shown = path.display();
    let opening = |error: std::io::Error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => Code::NotFound,
            std::io::ErrorKind::PermissionDenied => Code::PermissionDenied,
            _ => Code::Unavailable,
        };
        Error::new(code, format!("{shown}: {error}")).with_source(error)
    };
    let no_library = |why: &str| Error::invalid(format!("{shown} is no shared library: {why}"));
    // Asked first: opening a pipe waits for whoever writes to it.
    if !path.metadata().map_err(opening)?.is_file() {
        return Err(no_library("it is no plain file"));
    }
    let mut file = File::open(path).map_err(opening)?;
    let mut head = Vec::new();
    file.by_ref()
        .take(20)
        .read_to_end(&mut head)
        .map_err(|error| {
            Error::new(Code::Unavailable, format!("{shown}: {error}")).with_source(error)
        })?;
    if cfg!(target_os = "linux") {
        if head.len() < 20 {
            return Err(no_library("it is shorter than the head of one"));
        }
        if &head[..4] != b"\x7fELF" {
            return Err(no_library("it does not begin as an ELF file"));
        }
        if head[16] != 3 {
            let kind = match head[16] {
                1 => "it is an object file; link it with -shared",
                2 => "it is a program",
                _ => "its ELF type is another one",
            };
            return Err(no_library(kind));
        }
        let machine = u16::from_le_bytes([head[18], head[19]]);
        let ours = if cfg!(target_arch = "x86_64") {
            62
        } else {
            183
        };
        if machine != ours {
            return Err(no_library(&format!(
                "it is built for another processor (ELF machine {machine}, this is {ours})"
            )));
        }
    }
    Ok(())
}

/// Loads a library after a child process has loaded it unharmed; it stays loaded.
pub fn load_for_good(path: &Path) -> Result<Arc<ManuallyDrop<libloading::os::unix::Library>>> {
    inspect_file(path)?;
    let shown = path.display();
    let answer = isolated(PROBE_LIMIT, || match load(path) {
        Ok(_library) => vec![],
        Err(error) => error.to_string().into_bytes(),
    })
    .map_err(|error| error.within(format_args!("loading {shown}")))?;
    if !answer.is_empty() {
        let why = String::from_utf8_lossy(&answer).into_owned();
        return Err(Error::invalid(format!("{shown} cannot be loaded: {why}")));
    }
    let loaded = load(path).map_err(|error| {
        Error::invalid(format!("{shown} cannot be loaded: {error}")).with_source(error)
    })?;
    Ok(Arc::new(ManuallyDrop::new(loaded)))
}

impl Library {
    pub(crate) fn open(runtime: &Runtime, path: &Path) -> Result<Self> {
        Ok(Self {
            runtime: runtime.clone(),
            path: path.to_owned(),
            loaded: load_for_good(path)?,
        })
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The address of an exported symbol.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn symbol(&self, name: &str) -> Result<*mut c_void> {
        // SAFETY: only the address is taken.
        let found = unsafe { self.loaded.get::<*mut c_void>(name.as_bytes()) };
        let missing = |source: Option<libloading::Error>| {
            let message = format!("{} exports no symbol '{name}'", self.path.display());
            let error = Error::new(Code::NotFound, message);
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

    /// The functions behind these symbols, one a stage.
    ///
    /// # Errors
    /// `NOT_FOUND` for a missing symbol.
    pub fn bundle(&self, stages: &[(Stage, &str)]) -> Result<Bundle> {
        let mut bundle = Bundle::default();
        for (stage, name) in stages {
            let address = self.symbol(name)?;
            // SAFETY: the caller names the symbol as a handler; nothing in a library tells.
            let handler = unsafe { std::mem::transmute::<*mut c_void, XLA_FFI_Handler>(address) };
            bundle = bundle.stage(*stage, Some(handler));
        }
        Ok(bundle)
    }

    /// The handler that these symbols make up. It is asked what it needs in a child process first:
    /// a metadata call that crashes or hangs is told.
    ///
    /// # Errors
    /// Missing symbols, a crash or a hang, and what this revision refuses.
    pub fn handler(&self, name: &str, stages: &[(Stage, &str)]) -> Result<Handler> {
        let bundle = self.bundle(stages)?;
        let shared = self.runtime.shared();
        isolated(PROBE_LIMIT, || {
            // What it says is asked for again in this process; only that it says something counts.
            drop(metadata::negotiate(shared, name, &bundle));
            vec![1]
        })
        .map_err(|error| error.within(format_args!("metadata of '{name}'")))?;
        Handler::new(shared, name, bundle)
    }

    /// Registers a user type by the symbols of its id, and of its `TypeInfo` if there is one, as
    /// Python does for libraries built with upstream's headers. A symbol is either the object itself
    /// or, as `XLA_FFI_DECLARE_TYPE_ID_SYMBOL` and `XLA_FFI_DECLARE_TYPE_INFO_SYMBOL` declare it, a
    /// function without parameters that returns its address. Gives the number.
    ///
    /// # Errors
    /// Missing symbols, functions that crash, hang or return null, and names or numbers that are
    /// taken.
    pub fn register_type(&self, name: &str, id: &str, info: Option<&str>) -> Result<i64> {
        self.register_type_with(name, id, info, |wanted, info| {
            // SAFETY: what the library says of its own type.
            unsafe { self.runtime.register_type(name, wanted, info) }
        })
    }

    /// As [`Library::register_type`], at whatever registry `register` asks.
    ///
    /// # Errors
    /// Those of [`Library::register_type`], and what `register` answers.
    pub fn register_type_with(
        &self,
        name: &str,
        id: &str,
        info: Option<&str>,
        register: impl FnOnce(i64, crate::TypeInfo) -> Result<i64>,
    ) -> Result<i64> {
        let id = self.object(id)?.cast::<i64>();
        let info = info.map(|info| self.object(info)).transpose()?;
        let wanted = crate::foreign::read(id as usize).ok_or_else(|| {
            Error::invalid(format!("the id of type '{name}' is no readable memory"))
        })?;
        let wanted = i64::from_ne_bytes(wanted);
        let deleter = match info {
            None => None,
            Some(info) => {
                let info = info.cast::<xla_ffi_sys::XLA_FFI_TypeInfo>();
                let bytes = crate::foreign::read::<24>(info as usize).ok_or_else(|| {
                    Error::hazard(Hazard::TypeInfo, "the type info is not readable memory")
                })?;
                // r6 has the deleter alone, later versions a size and a chain before it.
                let size = usize::from_ne_bytes([
                    bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
                ]);
                if size != 24 {
                    return Err(Error::invalid(format!(
                        "type info of '{name}' says to be {size} bytes long, 24 are expected"
                    )));
                }
                // SAFETY: 24 readable bytes that say to be a type info.
                unsafe { (*info).deleter }
            }
        };
        let number = register(wanted, crate::TypeInfo { deleter })?;
        // SAFETY: the caller names the symbol as a type id, an i64; hosts write the number there.
        unsafe { id.write(number) };
        Ok(number)
    }

    /// The object that a symbol is, or whose address it returns.
    fn object(&self, name: &str) -> Result<*mut c_void> {
        let address = self.symbol(name)?;
        if !crate::foreign::is_function(address as usize) {
            return Ok(address);
        }
        // SAFETY: the caller names the symbol as one of a type, and those that are functions have
        // no parameters and return a pointer.
        let function =
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> *mut c_void>(address) };
        // What is no such function is found out in a child process.
        let answer = isolated(PROBE_LIMIT, || vec![u8::from(function().is_null())])
            .map_err(|error| error.within(format_args!("calling '{name}'")))?;
        if answer != [0] {
            return Err(Error::invalid(format!(
                "{} exports '{name}' as a function, which returns null and not the address of a \
                 type id or type info",
                self.path.display()
            )));
        }
        Ok(function())
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
