//! What all objects of one runtime share: the ground that handlers, calls and the functions of the
//! table stand on.

use super::calls::Calls;
use super::pool::ThreadPool;
use super::registrations::Registrations;
use super::table::Table;
use super::types::Types;
use crate::frame::encoded::Encoded;
use crate::legacy::Targets;
use crate::process::check_owner;
use crate::{Attributes, Code, Error, Finding, Result};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use xla_ffi_sys::{Revision, XLA_FFI_Api, XLA_FFI_InternalApi};

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
            Code::FailedPrecondition,
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
            super::log::warn(format_args!("{finding}"));
        }
    }
}
