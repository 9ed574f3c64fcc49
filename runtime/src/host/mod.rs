//! The data of a runtime: the function table, the registries, the threads, and the objects to which handlers hold
//! numbers.

pub(crate) mod bundle;
pub(crate) mod calls;
pub(crate) mod errors;
pub(crate) mod futures;
pub(crate) mod legacy_targets;
pub mod metadata;
pub(crate) mod pool;
pub(crate) mod registrations;
pub(crate) mod runtime;
pub(crate) mod state_object;
pub(crate) mod timer;
pub(crate) mod types;

pub use bundle::{Bundle, Traits};
pub use calls::{Execution, HandlerCounts};
pub use metadata::Metadata;
pub use pool::Executor;
pub use registrations::canonical_platform;
pub use runtime::{Runtime, living_objects};
pub use types::TypeInfo;

use self::calls::Calls;
use self::legacy_targets::Targets;
use self::pool::ThreadPool;
use self::registrations::Registrations;
use self::types::Types;
use crate::frame::encoded::Encoded;
use crate::process::check_owner;
use crate::value::Attributes;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use xla_ffi_sys::{Error, ErrorCode, Finding, Result};
use xla_ffi_sys::{Revision, Slot, XLA_FFI_Api, XLA_FFI_InternalApi};

/// The data of a runtime: the function table of its revision, its registrations, and its threads.
///
/// All threads read this data during calls. The alignment keeps the reference counts, which are written, on a
/// different cache line.
#[repr(align(128))]
pub(crate) struct Shared {
    pub(crate) revision: Revision,
    table: Table,
    pub(crate) types: Types,
    pub(crate) handlers: Registrations,
    pub(crate) calls: Calls,
    pub(crate) legacy: Targets,
    /// The empty dictionary, for calls without custom options.
    pub(crate) no_options: Arc<Encoded>,
    threads: usize,
    /// The thread pool, with the id of the process that started it.
    pool: OnceLock<(u32, ThreadPool)>,
    findings: Mutex<Vec<Finding>>,
}

static LIVING: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

fn list() -> MutexGuard<'static, Vec<Weak<Shared>>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns all runtimes. The caller must drop them without the lock: a dropped runtime reports findings to the
/// program's logger, and the logger may create a runtime.
fn living() -> Vec<Arc<Shared>> {
    let mut list = list();
    list.retain(|shared| shared.strong_count() > 0);
    list.iter().filter_map(Weak::upgrade).collect()
}

/// Returns the runtime of a revision if exactly one exists. A table function without a context, on a thread outside
/// any call, can only belong to this runtime.
pub(crate) fn only_living(revision: Revision) -> Result<Arc<Shared>> {
    let mut found = living()
        .into_iter()
        .filter(|shared| shared.revision == revision);
    match (found.next(), found.next()) {
        (Some(shared), None) => Ok(shared),
        _ => Err(Error::new(
            ErrorCode::FailedPrecondition,
            "several runtimes have this table's functions: register from inside a call, or on the \
             runtime itself",
        )),
    }
}

/// Returns the runtime with this `internal_api`. Only addresses are compared.
pub(crate) fn find_living(internal_api: *const XLA_FFI_InternalApi) -> Option<Arc<Shared>> {
    if internal_api.is_null() {
        return None;
    }
    living()
        .into_iter()
        .find(|shared| shared.internal_api() == internal_api)
}

impl Shared {
    /// Creates a runtime of a revision, with a function table of that revision and the given number of threads.
    pub(crate) fn new(revision: Revision, table: Table, threads: usize) -> Arc<Self> {
        let shared = Arc::new(Self {
            revision,
            table,
            types: Types::default(),
            handlers: Registrations::default(),
            calls: Calls::default(),
            legacy: Targets::default(),
            no_options: Encoded::new(&Attributes::new(), revision),
            threads,
            pool: OnceLock::new(),
            findings: Mutex::default(),
        });
        let mut living = list();
        // Weak references are removed because they keep the memory of a dropped runtime allocated.
        living.retain(|known| known.strong_count() > 0);
        living.push(Arc::downgrade(&shared));
        drop(living);
        shared
    }

    pub(crate) fn api(&self) -> *const XLA_FFI_Api {
        self.table.api()
    }

    pub(crate) fn internal_api(&self) -> *const XLA_FFI_InternalApi {
        self.table.internal_api()
    }

    pub(crate) fn pool(&self) -> Result<&ThreadPool> {
        if self.pool.get().is_none() {
            let made = ThreadPool::new(self.threads)?;
            let _ = self.pool.set((std::process::id(), made));
        }
        let (process, pool) = self.pool.get().expect("it was set");
        check_owner(*process)?;
        Ok(pool)
    }

    /// Keeps a finding until [`Shared::take_findings`] is called. A repeated finding is kept once.
    pub(crate) fn note(&self, finding: Finding) {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }

    /// Returns the findings since the last call of this function.
    pub(crate) fn take_findings(&self) -> Vec<Finding> {
        std::mem::take(&mut *self.findings.lock().unwrap_or_else(PoisonError::into_inner))
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
            crate::process::warn(format_args!("{finding}"));
        }
    }
}

/// The number of words before the first function of a table.
const HEAD: usize = 6;
/// The number of words after the table. They contain the address of the function that reports calls of absent slots.
/// In XLA, this memory has unrelated contents.
const BEHIND: usize = 16;

/// A function table, followed by the object to which `internal_api` refers. On r0 to r4, where `struct_size` is 88,
/// libraries compute the table's length from the distance between them.
pub(crate) struct Table {
    // The memory is never freed: libraries identify hosts by its address, so a later table must not reuse the
    // address.
    words: &'static [usize],
    internal: usize,
}

impl Table {
    /// Creates the table of `revision`. `function` returns the function of each slot, and `absent` fills the words
    /// after the last slot.
    pub(crate) fn new(revision: Revision, absent: usize, function: fn(Slot) -> usize) -> Self {
        let internal = revision.api_size() / 8;
        let mut words = vec![0; internal + BEHIND].into_boxed_slice();
        words[0] = revision.api_struct_size();
        words[2] = 24;
        // The word contains two C ints. The major version (0) is in the low half, because all supported hosts are
        // little-endian.
        words[4] = (revision.minor_version() as u32 as usize) << 32;
        words[5] = &raw const words[internal] as usize;
        words[internal..].fill(absent);
        for slot in Slot::ALL {
            if let Some(index) = slot.index(revision) {
                words[HEAD + index] = function(slot);
            }
        }
        let words = keep(words);
        Self { words, internal }
    }

    pub(crate) fn api(&self) -> *const XLA_FFI_Api {
        self.words.as_ptr().cast()
    }

    pub(crate) fn internal_api(&self) -> *const XLA_FFI_InternalApi {
        (&raw const self.words[self.internal]).cast()
    }
}

/// The tables, so that leak checkers find references to them.
static KEPT: Mutex<Vec<&'static [usize]>> = Mutex::new(Vec::new());

/// Makes a table's memory permanent: it is kept until the program ends.
fn keep(words: Box<[usize]>) -> &'static [usize] {
    let words: &'static [usize] = Box::leak(words);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.push(words);
    words
}

#[cfg(test)]
impl Table {
    /// Returns the words after the head, up to the end of the table.
    pub(crate) fn functions(&self) -> &[usize] {
        &self.words[HEAD..self.internal]
    }

    /// Returns the table's `struct_size`, its first word.
    pub(crate) fn struct_size(&self) -> usize {
        self.words[0]
    }
}
