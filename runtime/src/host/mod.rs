//! The data of a runtime: its table's memory, registries, threads, and the objects that handlers hold.

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

/// A runtime: the table of its revision, its registrations, and its threads.
///
/// All threads read it during calls. It is aligned, so that the reference counts, which are written, are on another
/// cache line.
#[repr(align(128))]
pub(crate) struct Shared {
    pub(crate) revision: Revision,
    table: Table,
    pub(crate) types: Types,
    pub(crate) handlers: Registrations,
    pub(crate) calls: Calls,
    pub(crate) legacy: Targets,
    /// The empty dictionary that calls without custom options use.
    pub(crate) no_options: Arc<Encoded>,
    threads: usize,
    /// The pool, with the id of the process that started it.
    pool: OnceLock<(u32, ThreadPool)>,
    findings: Mutex<Vec<Finding>>,
}

static LIVING: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

fn list() -> MutexGuard<'static, Vec<Weak<Shared>>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns all runtimes. The caller drops them without the lock: dropping the last owner reports findings to the
/// program's logger, which may create a runtime.
fn living() -> Vec<Arc<Shared>> {
    let mut list = list();
    list.retain(|shared| shared.strong_count() > 0);
    list.iter().filter_map(Weak::upgrade).collect()
}

/// Returns the runtime of a revision if it is the only one. A call without a context, on a thread outside any call,
/// can then only belong to it.
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

/// Returns the runtime with this `internal_api`: only the address is compared.
pub(crate) fn find_living(internal_api: *const XLA_FFI_InternalApi) -> Option<Arc<Shared>> {
    if internal_api.is_null() {
        return None;
    }
    living()
        .into_iter()
        .find(|shared| shared.internal_api() == internal_api)
}

impl Shared {
    /// Creates a runtime of a revision, with a table of that revision's functions and this many threads.
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
        // A weak reference to a dropped runtime keeps its memory allocated.
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

    /// Keeps a finding until it is taken. Findings that every call of a handler may repeat are kept once.
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

/// Words before the first function.
const HEAD: usize = 6;
/// Number of words after the table, which hold the function for absent slots. Calls of functions that this revision
/// lacks reach that function; a real host has unrelated memory there.
const BEHIND: usize = 16;

/// A table, immediately followed by the object that `internal_api` refers to. On r0–r4, where `struct_size` is 88,
/// libraries learn the table's length from the distance between the two.
pub(crate) struct Table {
    // Never freed: libraries identify hosts by this address, so a later table must not reuse it.
    words: &'static [usize],
    internal: usize,
}

impl Table {
    /// Creates the table of `revision`: `function` returns each slot's function, and `absent` follows the last.
    pub(crate) fn new(revision: Revision, absent: usize, function: fn(Slot) -> usize) -> Self {
        let internal = revision.api_size() / 8;
        let mut words = vec![0; internal + BEHIND].into_boxed_slice();
        words[0] = revision.api_struct_size();
        words[2] = 24;
        // Two C ints, with the major version (0) in the low half, because all supported hosts are little-endian.
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

/// The tables, so that leak checkers see them.
static KEPT: Mutex<Vec<&'static [usize]>> = Mutex::new(Vec::new());

/// Keeps a table until the program ends.
fn keep(words: Box<[usize]>) -> &'static [usize] {
    let words: &'static [usize] = Box::leak(words);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.push(words);
    words
}

#[cfg(test)]
impl Table {
    /// Returns the words after the head, up to the table's end.
    pub(crate) fn functions(&self) -> &[usize] {
        &self.words[HEAD..self.internal]
    }

    /// Returns the first word: `struct_size`.
    pub(crate) fn struct_size(&self) -> usize {
        self.words[0]
    }
}
