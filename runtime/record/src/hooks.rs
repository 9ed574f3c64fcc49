//! Watches functions of the host during a recording.
//!
//! The completion of a future, and the state that a call uses, are only visible in the handler's calls of host
//! functions. During a recording, five slots of the host's function table therefore contain hooks. A hook records the
//! call and forwards it to the host's function. The table is modified in place and not copied, because libraries
//! identify a host by the table's address.

use crate::call::Outcome;
use crate::host::{Function, Host};
use crate::running::{Running, innermost};
use crate::session::lock;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::mem::{offset_of, transmute};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};
use xla_ffi_sys::{
    Revision, Slot, XLA_FFI_Api, XLA_FFI_Error, XLA_FFI_ExecutionStage, XLA_FFI_Future_Create_Args,
    XLA_FFI_Future_SetAvailable_Args, XLA_FFI_Future_SetError_Args, XLA_FFI_State_Get_Args,
    XLA_FFI_State_Get_Args_R0, XLA_FFI_State_Set_Args, XLA_FFI_State_Set_Args_R0,
};

/// The functions of the host that are watched.
const WATCHED: [Slot; 5] = [
    Slot::FutureCreate,
    Slot::FutureSetAvailable,
    Slot::FutureSetError,
    Slot::StateSet,
    Slot::StateGet,
];

/// The maximum number of XLA copies in a process that are watched.
const TABLES: usize = 4;

/// A function table that is or was watched.
struct Watched {
    api: AtomicPtr<XLA_FFI_Api>,
    /// The host's revision, which determines the layout of the state functions' arguments.
    revision: AtomicUsize,
    /// The host's functions, which the hooks replace.
    own: [AtomicUsize; WATCHED.len()],
}

static TABLE: [Watched; TABLES] = [const {
    Watched {
        api: AtomicPtr::new(ptr::null_mut()),
        revision: AtomicUsize::new(0),
        own: [const { AtomicUsize::new(0) }; WATCHED.len()],
    }
}; TABLES];

/// Whether each function table is currently watched.
static WATCHING: Mutex<[bool; TABLES]> = Mutex::new([false; TABLES]);

/// The calls with open futures, by the future's address.
static OPEN: Mutex<BTreeMap<usize, Arc<Running>>> = Mutex::new(BTreeMap::new());

/// Starts to watch a host's functions. Returns `false` if this fails.
pub(crate) fn watch(host: Host) -> bool {
    if host.api().is_null() {
        return false;
    }
    let mut watching = lock(&WATCHING);
    // Entries are used in order, so all entries after the first unused entry are unused.
    let mine = |known: &Watched| {
        let api = known.api.load(Ordering::Relaxed).cast_const();
        api.is_null() || api == host.api()
    };
    let Some(table) = TABLE.iter().position(mine) else {
        return false;
    };
    if watching[table] {
        return true;
    }
    let known = &TABLE[table];
    known.api.store(host.api().cast_mut(), Ordering::Relaxed);
    known
        .revision
        .store(host.revision() as usize, Ordering::Relaxed);
    for (index, slot) in WATCHED.into_iter().enumerate() {
        if let Some(at) = host.slot(slot) {
            // SAFETY: the slot is inside the table.
            let own = unsafe { at.read() };
            if own == hook(table, index) {
                // The slot still contains the hook, because the host's function could not be restored.
                watching[table] = true;
                continue;
            }
            known.own[index].store(own, Ordering::Relaxed);
            // SAFETY: the slot is inside the table, and the hook forwards to the host's function.
            watching[table] |= own != 0 && unsafe { write(at, hook(table, index)) };
        }
    }
    watching[table]
}

/// Stops watching: restores the functions of all hosts.
pub(crate) fn unwatch() {
    for (table, watched) in lock(&WATCHING).iter_mut().enumerate() {
        let Some(revision) = Revision::ALL.get(TABLE[table].revision.load(Ordering::Relaxed))
        else {
            continue;
        };
        // SAFETY: the address is that of a host's table, with the revision that was stored with it.
        let host = unsafe { Host::new(TABLE[table].api.load(Ordering::Relaxed), *revision) };
        for (index, slot) in WATCHED.into_iter().enumerate().filter(|_| *watched) {
            let Some(at) = host.slot(slot) else {
                continue;
            };
            // SAFETY: the slot is inside the table.
            if unsafe { at.read() } == hook(table, index) {
                // SAFETY: the slot is inside the table, and the value is the host's function.
                unsafe { write(at, TABLE[table].own[index].load(Ordering::Relaxed)) };
            }
        }
        *watched = false;
    }
}

/// Records that the call ends when this future is completed.
pub(crate) fn expect(future: usize, running: &Arc<Running>) {
    lock(&OPEN).insert(future, running.clone());
}

/// Removes a future from the list of futures that end this call.
pub(crate) fn forget(future: usize, running: &Arc<Running>) {
    let mut open = lock(&OPEN);
    if open
        .get(&future)
        .is_some_and(|other| Arc::ptr_eq(other, running))
    {
        open.remove(&future);
    }
}

/// Removes a completed future from the list, and returns its call.
fn completed(future: usize) -> Option<Arc<Running>> {
    lock(&OPEN).remove(&future)
}

/// Returns the address of the hook for a function in a table.
fn hook(table: usize, index: usize) -> usize {
    fn of<const N: usize>(index: usize) -> usize {
        [
            future_create::<N>,
            future_set_available::<N>,
            future_set_error::<N>,
            state_set::<N>,
            state_get::<N>,
        ][index] as *const () as usize
    }
    [of::<0>, of::<1>, of::<2>, of::<3>][table](index)
}

/// Calls the host's function that a hook replaced.
///
/// # Safety
/// `args` must be valid arguments of the function with this index.
unsafe fn forward<const N: usize>(index: usize, args: *mut c_void) -> *mut XLA_FFI_Error {
    // The host reads the slot without ordering, so this fence pairs with the release store in `write`.
    fence(Ordering::Acquire);
    let own = TABLE[N].own[index].load(Ordering::Relaxed);
    // SAFETY: the function was stored before the hook was written to the table, and is not null.
    let own: Function = unsafe { transmute(own) };
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { own(args) }
}

fn revision<const N: usize>() -> usize {
    fence(Ordering::Acquire);
    TABLE[N].revision.load(Ordering::Relaxed)
}

/// Reads the field of an arguments struct at an offset.
///
/// # Safety
/// The struct must have a field of type `T` at the offset.
unsafe fn field<T: Copy>(args: *const c_void, at: usize) -> T {
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { args.wrapping_byte_add(at).cast::<T>().read() }
}

unsafe extern "C" fn future_create<const N: usize>(args: *mut c_void) -> *mut XLA_FFI_Error {
    // SAFETY: the handler passes valid arguments.
    let error = unsafe { forward::<N>(0, args) };
    if error.is_null() {
        if let Some(running) = innermost() {
            let at = offset_of!(XLA_FFI_Future_Create_Args, future);
            // SAFETY: the host's function has succeeded and initialised the field.
            let future = unsafe { field(args, at) };
            running.made(future);
            expect(future, &running);
        }
    }
    error
}

unsafe extern "C" fn future_set_available<const N: usize>(args: *mut c_void) -> *mut XLA_FFI_Error {
    let at = offset_of!(XLA_FFI_Future_SetAvailable_Args, future);
    // SAFETY: the handler passes valid arguments.
    let future = unsafe { field(args, at) };
    if let Some(running) = completed(future) {
        // SAFETY: the handler has written the results, and the host does not know yet that they are complete.
        unsafe { running.completed(future, Outcome::Done) };
    }
    // SAFETY: the handler passes valid arguments.
    unsafe { forward::<N>(1, args) }
}

unsafe extern "C" fn future_set_error<const N: usize>(args: *mut c_void) -> *mut XLA_FFI_Error {
    let at = offset_of!(XLA_FFI_Future_SetError_Args, future);
    // SAFETY: the handler passes valid arguments.
    let future = unsafe { field(args, at) };
    if let Some(running) = completed(future) {
        let at = offset_of!(XLA_FFI_Future_SetError_Args, error);
        // SAFETY: the handler passes valid arguments.
        let error = unsafe { field(args, at) };
        // SAFETY: the host receives and may free the error only after this call.
        let outcome = unsafe { running.error(error) };
        // SAFETY: after an error, results are not read.
        unsafe { running.completed(future, outcome) };
    }
    // SAFETY: the handler passes valid arguments.
    unsafe { forward::<N>(2, args) }
}

unsafe extern "C" fn state_set<const N: usize>(args: *mut c_void) -> *mut XLA_FFI_Error {
    // SAFETY: the handler passes valid arguments.
    let error = unsafe { forward::<N>(3, args) };
    if error.is_null() {
        if let Some(running) = innermost() {
            let at = if revision::<N>() < Revision::R8 as usize {
                offset_of!(XLA_FFI_State_Set_Args_R0, state)
            } else {
                offset_of!(XLA_FFI_State_Set_Args, state)
            };
            // SAFETY: the handler passes valid arguments.
            running.state_set(unsafe { field(args, at) });
        }
    }
    error
}

unsafe extern "C" fn state_get<const N: usize>(args: *mut c_void) -> *mut XLA_FFI_Error {
    // SAFETY: the handler passes valid arguments.
    let error = unsafe { forward::<N>(4, args) };
    if error.is_null() {
        if let Some(running) = innermost() {
            let staged = revision::<N>() >= Revision::R8 as usize;
            let stage = offset_of!(XLA_FFI_State_Get_Args, stage);
            let at = if staged {
                offset_of!(XLA_FFI_State_Get_Args, state)
            } else {
                offset_of!(XLA_FFI_State_Get_Args_R0, state)
            };
            let instantiate = XLA_FFI_ExecutionStage::INSTANTIATE.0;
            // SAFETY: the handler passes valid arguments, and from r8 they have this field.
            let asked = staged.then(|| unsafe { field::<u32>(args, stage) });
            if asked.is_none_or(|stage| stage == instantiate) {
                // SAFETY: the host's function has succeeded and initialised the field.
                running.state_got(unsafe { field(args, at) });
            }
        }
    }
    error
}

/// Writes a word of a function table, which may be in read-only memory. Returns `false` if the memory cannot be made
/// writable.
///
/// # Safety
/// `at` must point to a word of the table, and `value` must be valid for all code that reads the word.
unsafe fn write(at: *mut usize, value: usize) -> bool {
    // SAFETY: `sysconf` only returns a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let start = at.map_addr(|at| at & !(page - 1)).cast();
    // SAFETY: the page is mapped, because it contains the word, and it contains data.
    if unsafe { libc::mprotect(start, page, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
        return false;
    }
    // SAFETY: the word is writable, and aligned like all function pointers in a table.
    unsafe { AtomicUsize::from_ptr(at) }.store(value, Ordering::Release);
    true
}
