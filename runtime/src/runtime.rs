//! The runtime: one XLA copy's worth of tables, registries and threads.

use crate::handler::{Bundle, Handler};
use crate::host::pool::ThreadPool;
use crate::host::table::Table;
use crate::isolate::in_child_process;
use crate::legacy::Targets;
use crate::library::Library;
use crate::types::{TypeInfo, Types};
use crate::{Code, Error, Finding, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use xla_ffi_sys::{Revision, XLA_FFI_Api, XLA_FFI_InternalApi};

/// What all objects of one runtime share.
pub(crate) struct Shared {
    pub(crate) revision: Revision,
    table: Table,
    pub(crate) types: Types,
    handlers: Mutex<BTreeMap<(String, String), (Handler, u32)>>,
    pub(crate) legacy: Targets,
    threads: usize,
    pool: OnceLock<ThreadPool>,
    child_pool: OnceLock<ThreadPool>,
    findings: Mutex<Vec<Finding>>,
    this: Weak<Self>,
}

static LIVING: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

fn living() -> Vec<Arc<Shared>> {
    let mut list = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
    list.retain(|shared| shared.strong_count() > 0);
    list.iter().filter_map(Weak::upgrade).collect()
}

/// The runtime of a revision when it is the only one: calls without a context, from a thread that
/// is in no call, can mean no other.
pub(crate) fn only_living(revision: Revision) -> Result<Arc<Shared>> {
    let mut found = living()
        .into_iter()
        .filter(|shared| shared.revision == revision);
    match (found.next(), found.next()) {
        (Some(shared), None) => Ok(shared),
        _ => Err(Error::new(
            Code::FailedPrecondition,
            "several runtimes have this table's functions: register from inside a call, or on the \
             runtime itself",
        )),
    }
}

impl Shared {
    pub(crate) fn api(&self) -> *const XLA_FFI_Api {
        self.table.api()
    }

    pub(crate) fn pool(&self) -> Result<&ThreadPool> {
        // A child process has none of its parent's threads: it gets a pool of its own.
        let pool = if in_child_process() {
            &self.child_pool
        } else {
            &self.pool
        };
        if let Some(pool) = pool.get() {
            return Ok(pool);
        }
        let made = ThreadPool::new(self.threads)?;
        Ok(pool.get_or_init(|| made))
    }

    pub(crate) fn note(&self, finding: Finding) {
        self.findings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(finding);
    }

    /// Registers a handler: an equal registration is fine, another one under the name is not.
    pub(crate) fn register_handler(
        &self,
        name: &str,
        platform: &str,
        bundle: Bundle,
        traits: u32,
    ) -> Result<()> {
        let Some(this) = self.this.upgrade() else {
            return Err(Error::new(
                Code::FailedPrecondition,
                "the runtime is going away",
            ));
        };
        let mut handler = Handler::new(&this, name, bundle)?;
        if let Some(metadata) = &mut handler.metadata {
            metadata.traits |= traits;
        }
        let key = (name.to_owned(), canonical_platform(platform));
        let mut handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, known_traits)) = handlers.get(&key) {
            if known.bundle.is_same(&bundle)
                && known.metadata == handler.metadata
                && *known_traits == traits
            {
                return Ok(());
            }
            return Err(Error::new(
                Code::InvalidArgument,
                format!(
                    "another handler is registered as '{name}' for platform '{}'",
                    key.1
                ),
            ));
        }
        handlers.insert(key, (handler, traits));
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for finding in self
            .findings
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            eprintln!("xla-ffi: {finding}");
        }
    }
}

/// The one spelling of a platform's name: lower case, `"host"` is `"cpu"`.
#[must_use]
pub fn canonical_platform(platform: &str) -> String {
    match platform.to_ascii_lowercase().as_str() {
        "host" => "cpu".into(),
        "gpu" => "cuda".into(),
        other => other.into(),
    }
}

/// A host for handlers that speaks one revision of the ABI. Clones are the same runtime.
///
/// ```
/// # use std::ffi::c_void;
/// # use xla_ffi_runtime::{Attributes, Bundle, DType, Revision, Runtime, Shape, Tensor};
/// # use xla_ffi_sys::{XLA_FFI_Buffer, XLA_FFI_CallFrame, XLA_FFI_Error};
/// # type Frame = XLA_FFI_CallFrame;
/// /// y = 2 x, in place of what a library would export.
/// unsafe extern "C" fn double(frame: *mut Frame) -> *mut XLA_FFI_Error {
///     // SAFETY: a host gives whole frames, here always of one argument and one result.
///     let (args, rets) = unsafe { ((*frame).args.args, (*frame).rets.rets) };
///     // SAFETY: as above.
///     let (x, y) = unsafe { ((*args).cast::<XLA_FFI_Buffer>(), (*rets).cast::<XLA_FFI_Buffer>()) };
///     // SAFETY: an f32 each, as the call below has it.
///     unsafe { *(*y).data.cast::<f32>() = 2.0 * *(*x).data.cast::<f32>() };
///     std::ptr::null_mut()
/// }
///
/// # fn main() -> xla_ffi_runtime::Result<()> {
/// // The first revision, which does not ask handlers what they are.
/// let runtime = Runtime::new(Revision::R0);
/// // SAFETY: the function is a handler.
/// let bundle = unsafe { Bundle::execute(double) };
/// runtime.register("double", "Host", bundle, 0)?;
/// assert_eq!(runtime.revision().name(), "r0");
/// assert!(runtime.find("double", "CUDA").is_err());
///
/// let executable = runtime.find("double", "cpu")?.instantiate(&Attributes::new())?;
/// let call = executable.call().arg(Tensor::from_slice([], &[21.0_f32])?);
/// let outcome = call.ret(Shape::new(DType::F32, [])?).run()?;
/// assert_eq!(outcome.rets[0].to_vec(), Some(vec![42.0_f32]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

impl Default for Runtime {
    fn default() -> Self {
        Self::new(Revision::NEWEST)
    }
}

impl Runtime {
    /// A runtime that behaves as the hosts of `revision`, with a thread pool of two threads or as
    /// many as the machine has, if that is more.
    #[must_use]
    pub fn new(revision: Revision) -> Self {
        let threads = std::thread::available_parallelism()
            .map_or(2, usize::from)
            .max(2);
        Self::with_threads(revision, threads)
    }

    /// A runtime with this many threads in its pool.
    #[must_use]
    pub fn with_threads(revision: Revision, threads: usize) -> Self {
        let shared = Arc::new_cyclic(|this| Shared {
            revision,
            table: Table::new(revision),
            types: Types::default(),
            handlers: Mutex::default(),
            legacy: Targets::default(),
            threads,
            pool: OnceLock::new(),
            child_pool: OnceLock::new(),
            findings: Mutex::default(),
            this: this.clone(),
        });
        LIVING
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::downgrade(&shared));
        Self { shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.shared.revision
    }

    /// The function table that handlers are given.
    #[must_use]
    pub fn api(&self) -> *const XLA_FFI_Api {
        self.shared.api()
    }

    /// The object behind the table, by whose address this image knows its own frames.
    #[must_use]
    pub fn internal_api(&self) -> *const XLA_FFI_InternalApi {
        self.shared.table.internal_api()
    }

    /// The runtime whose `internal_api` this is, if it is one of this image: the address alone is
    /// compared, nothing is read through it.
    #[must_use]
    pub fn from_internal_api(internal_api: *const XLA_FFI_InternalApi) -> Option<Self> {
        let found = living()
            .into_iter()
            .find(|s| s.table.internal_api() == internal_api)?;
        Some(Self { shared: found })
    }

    /// Loads a library after a child process has loaded it unharmed.
    ///
    /// # Errors
    /// `NOT_FOUND` for a missing file, `INVALID_ARGUMENT` for one that is no library of this
    /// machine, the loader's own words for missing symbols, and a crash or a hang of its
    /// constructors.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Library> {
        Library::open(self, path.as_ref())
    }

    /// Takes functions of this program as a handler.
    ///
    /// # Errors
    /// As a registration: no execute stage, or a version that this revision refuses.
    pub fn handler(&self, name: &str, bundle: Bundle) -> Result<Handler> {
        Handler::new(&self.shared, name, bundle)
    }

    /// Registers functions under a name and a platform, as `Handler_Register` does.
    ///
    /// # Errors
    /// As [`Runtime::handler`], and `INVALID_ARGUMENT` when the name stands for something else.
    pub fn register(&self, name: &str, platform: &str, bundle: Bundle, traits: u32) -> Result<()> {
        self.shared.register_handler(name, platform, bundle, traits)
    }

    /// The handler that is registered under a name for a platform.
    ///
    /// # Errors
    /// `NOT_FOUND`, with the names that there are.
    pub fn find(&self, name: &str, platform: &str) -> Result<Handler> {
        let platform = canonical_platform(platform);
        let handlers = self
            .shared
            .handlers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((handler, _)) = handlers.get(&(name.to_owned(), platform.clone())) {
            return Ok(handler.clone());
        }
        let known: Vec<_> = handlers
            .keys()
            .map(|(name, at)| format!("'{name}' on {at}"))
            .collect();
        let known = if known.is_empty() {
            "none".into()
        } else {
            known.join(", ")
        };
        let hint = match self.shared.legacy.versions(name, &platform).first() {
            Some(version) => format!("; a legacy target has this name: call it as {version}"),
            None => String::new(),
        };
        Err(Error::new(
            Code::NotFound,
            format!(
                "no handler is registered as '{name}' for platform '{platform}'; there are: \
                 {known}{hint}"
            ),
        ))
    }

    /// Registers a user type and says its number: `wanted` 0 asks for one.
    ///
    /// # Errors
    /// `INTERNAL` when the name is taken.
    ///
    /// # Safety
    /// In this runtime the name, and the number if one is asked for, stand for one type alone: whoever
    /// finds objects by them, libraries included, means the same. The deleter destroys objects of it.
    pub unsafe fn register_type(&self, name: &str, wanted: i64, info: TypeInfo) -> Result<i64> {
        self.shared.types.register(name, wanted, info)
    }

    /// The number of the type called `name`, which is registered with `info` if there was none.
    ///
    /// # Errors
    /// None today.
    ///
    /// # Safety
    /// As for [`Runtime::register_type`].
    pub unsafe fn get_or_register_type(&self, name: &str, info: TypeInfo) -> Result<i64> {
        self.shared.types.get_or_register(name, info)
    }

    /// How objects of the type with this number are destroyed.
    ///
    /// # Errors
    /// `INTERNAL` for a number that no type has.
    pub fn type_info(&self, id: i64) -> Result<TypeInfo> {
        self.shared.types.info(id)
    }

    /// The number of the type called `name`.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn type_id(&self, name: &str) -> Result<i64> {
        self.shared.types.id(name)
    }

    /// What was found outside of any call (in pool tasks, for instance) since the last time.
    #[must_use]
    pub fn take_findings(&self) -> Vec<Finding> {
        std::mem::take(
            &mut *self
                .shared
                .findings
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

/// Errors and futures that handlers hold at the moment, in all runtimes of this process: both are 0
/// once every call is over, unless a handler leaks.
#[must_use]
pub fn living_objects() -> (usize, usize) {
    (
        crate::host::errors::living(),
        crate::host::futures::living(),
    )
}
