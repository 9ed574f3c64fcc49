//! What belongs to one runtime: its table's memory, registries, threads, and the objects that handlers hold.

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

/// One runtime: the table of its revision, what is registered with it, and its threads.
///
/// Calls read it on every thread: aligned, so that the counts of its owners, which are written, lie
/// elsewhere.
#[repr(align(128))]
pub(crate) struct Shared {
    pub(crate) revision: Revision,
    table: Table,
    pub(crate) types: Types,
    pub(crate) handlers: Registrations,
    pub(crate) calls: Calls,
    pub(crate) legacy: Targets,
    /// The options of calls that have none.
    pub(crate) no_options: Arc<Encoded>,
    threads: usize,
    /// With the process that started it.
    pool: OnceLock<(u32, ThreadPool)>,
    findings: Mutex<Vec<Finding>>,
}

static LIVING: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

fn list() -> MutexGuard<'static, Vec<Weak<Shared>>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All runtimes. They are let go without the lock: the last owner of one tells the program's logger what was found,
/// and that may make a runtime.
fn living() -> Vec<Arc<Shared>> {
    let mut list = list();
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
            ErrorCode::FailedPrecondition,
            "several runtimes have this table's functions: register from inside a call, or on the \
             runtime itself",
        )),
    }
}

/// The runtime whose `internal_api` this is: the address alone is compared.
pub(crate) fn find_living(internal_api: *const XLA_FFI_InternalApi) -> Option<Arc<Shared>> {
    if internal_api.is_null() {
        return None;
    }
    living()
        .into_iter()
        .find(|shared| shared.internal_api() == internal_api)
}

impl Shared {
    /// A runtime of a revision, with a table of that revision's functions and this many threads.
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
        // A reference to one that is gone keeps its memory.
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

    /// Keeps a finding until somebody takes it. What every call of a handler may do again is kept once.
    pub(crate) fn note(&self, finding: Finding) {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }

    /// What was noted since the last time.
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
/// Words behind the table. Each holds the function for absent ones: a library that calls a function which this
/// revision lacks lands there, where a real host has somebody else's memory.
const BEHIND: usize = 16;

/// A table and, right behind it, the object that `internal_api` names: on r0–r4, where
/// `struct_size` says 88, the distance between the two is how libraries learn the table's length.
pub(crate) struct Table {
    // Never freed: libraries know hosts by this address, so a later table must not get it.
    words: &'static [usize],
    internal: usize,
}

impl Table {
    /// The table of `revision`: each slot's function from `function`, and `absent` behind the last.
    pub(crate) fn new(revision: Revision, absent: usize, function: fn(Slot) -> usize) -> Self {
        let internal = revision.api_size() / 8;
        let mut words = vec![0; internal + BEHIND].into_boxed_slice();
        words[0] = revision.api_struct_size();
        words[2] = 24;
        // Two C ints, the major version (0) in the low half on the little-endian hosts there are.
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

/// The tables, for leak checkers to see.
static KEPT: Mutex<Vec<&'static [usize]>> = Mutex::new(Vec::new());

/// Keeps a table for good.
fn keep(words: Box<[usize]>) -> &'static [usize] {
    let words: &'static [usize] = Box::leak(words);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.push(words);
    words
}

#[cfg(test)]
impl Table {
    /// The words behind the head, up to the table's end.
    pub(crate) fn functions(&self) -> &[usize] {
        &self.words[HEAD..self.internal]
    }

    /// The first word: `struct_size`.
    pub(crate) fn struct_size(&self) -> usize {
        self.words[0]
    }
}
