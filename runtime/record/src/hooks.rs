//! Functions of the host that are watched while a recording is under way.
//!
//! When an asynchronous call is complete, and which state a call uses, shows in what the handler
//! asks of its host. So five slots of the host's function table lead through this module: each notes
//! what it sees and calls the host's own function. The table is changed where it lies, not copied:
//! libraries know a host by the table's address.

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

/// The functions that are watched.
const WATCHED: [Slot; 5] = [
    Slot::FutureCreate,
    Slot::FutureSetAvailable,
    Slot::FutureSetError,
    Slot::StateSet,
    Slot::StateGet,
];

/// As many copies of XLA in one process are watched.
const TABLES: usize = 4;

/// A table that was once watched.
struct Watched {
    api: AtomicPtr<XLA_FFI_Api>,
    /// Says how the arguments of the state functions are laid out.
    revision: AtomicUsize,
    /// The host's own functions.
    own: [AtomicUsize; WATCHED.len()],
}

static TABLE: [Watched; TABLES] = [const {
    Watched {
        api: AtomicPtr::new(ptr::null_mut()),
        revision: AtomicUsize::new(0),
        own: [const { AtomicUsize::new(0) }; WATCHED.len()],
    }
}; TABLES];

/// Whether they are watched now.
static WATCHING: Mutex<[bool; TABLES]> = Mutex::new([false; TABLES]);

/// The calls whose futures are open, by future.
static OPEN: Mutex<BTreeMap<usize, Arc<Running>>> = Mutex::new(BTreeMap::new());

/// Watches a host's functions; `false` where that cannot be done.
pub(crate) fn watch(host: Host) -> bool {
    if host.api().is_null() {
        return false;
    }
    let mut watching = lock(&WATCHING);
    // They are taken in order, so that none stands behind one that is free.
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
            // SAFETY: the slot is within the table.
            let own = unsafe { at.read() };
            if own == hook(table, index) {
                // It could not be given back.
                watching[table] = true;
                continue;
            }
            known.own[index].store(own, Ordering::Relaxed);
            // SAFETY: the same, and the function does what the host's own does.
            watching[table] |= own != 0 && unsafe { write(at, hook(table, index)) };
        }
    }
    watching[table]
}

/// Gives all hosts their functions back.
pub(crate) fn unwatch() {
    for (table, watched) in lock(&WATCHING).iter_mut().enumerate() {
        let Some(revision) = Revision::ALL.get(TABLE[table].revision.load(Ordering::Relaxed))
        else {
            continue;
        };
        // SAFETY: a host's table, with the revision that was noted for it.
        let host = unsafe { Host::new(TABLE[table].api.load(Ordering::Relaxed), *revision) };
        for (index, slot) in WATCHED.into_iter().enumerate().filter(|_| *watched) {
            let Some(at) = host.slot(slot) else {
                continue;
            };
            // SAFETY: the slot is within the table.
            if unsafe { at.read() } == hook(table, index) {
                // SAFETY: the same; it is the host's own function.
                unsafe { write(at, TABLE[table].own[index].load(Ordering::Relaxed)) };
            }
        }
        *watched = false;
    }
}

/// A future that is open is this call's.
pub(crate) fn expect(future: usize, running: &Arc<Running>) {
    lock(&OPEN).insert(future, running.clone());
}

/// What becomes of a future is nothing to this call.
pub(crate) fn forget(future: usize, running: &Arc<Running>) {
    let mut open = lock(&OPEN);
    if open
        .get(&future)
        .is_some_and(|other| Arc::ptr_eq(other, running))
    {
        open.remove(&future);
    }
}

/// The call whose future is completed.
fn completed(future: usize) -> Option<Arc<Running>> {
    lock(&OPEN).remove(&future)
}

/// The hook for a table and a function.
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

/// Calls the host's own function.
///
/// # Safety
/// The arguments are those of the function with this index.
unsafe fn forward<const N: usize>(index: usize, args: *mut c_void) -> *mut XLA_FFI_Error {
    // After the slot, which the host has read without an order: the other half of the release in `write`.
    fence(Ordering::Acquire);
    let own = TABLE[N].own[index].load(Ordering::Relaxed);
    // SAFETY: stored before the hook was put into the table, and not null then.
    let own: Function = unsafe { transmute(own) };
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { own(args) }
}

fn revision<const N: usize>() -> usize {
    fence(Ordering::Acquire);
    TABLE[N].revision.load(Ordering::Relaxed)
}

/// A field of arguments by its place.
///
/// # Safety
/// The arguments have such a field there.
unsafe fn field<T: Copy>(args: *const c_void, at: usize) -> T {
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { args.wrapping_byte_add(at).cast::<T>().read() }
}

unsafe extern "C" fn future_create<const N: usize>(args: *mut c_void) -> *mut XLA_FFI_Error {
    // SAFETY: the caller passes valid arguments.
    let error = unsafe { forward::<N>(0, args) };
    if error.is_null() {
        if let Some(running) = innermost() {
            let at = offset_of!(XLA_FFI_Future_Create_Args, future);
            // SAFETY: the host has initialised it.
            let future = unsafe { field(args, at) };
            running.made(future);
            expect(future, &running);
        }
    }
    error
}

unsafe extern "C" fn future_set_available<const N: usize>(args: *mut c_void) -> *mut XLA_FFI_Error {
    let at = offset_of!(XLA_FFI_Future_SetAvailable_Args, future);
    // SAFETY: the caller passes valid arguments.
    let future = unsafe { field(args, at) };
    if let Some(running) = completed(future) {
        // SAFETY: the handler says that it has written its results, and the host does not know it yet.
        unsafe { running.completed(future, Outcome::Done) };
    }
    // SAFETY: the caller passes valid arguments.
    unsafe { forward::<N>(1, args) }
}

unsafe extern "C" fn future_set_error<const N: usize>(args: *mut c_void) -> *mut XLA_FFI_Error {
    let at = offset_of!(XLA_FFI_Future_SetError_Args, future);
    // SAFETY: the caller passes valid arguments.
    let future = unsafe { field(args, at) };
    if let Some(running) = completed(future) {
        let at = offset_of!(XLA_FFI_Future_SetError_Args, error);
        // SAFETY: the caller passes valid arguments.
        let error = unsafe { field(args, at) };
        // SAFETY: the error is alive until the host has it.
        let outcome = unsafe { running.error(error) };
        // SAFETY: no results are read.
        unsafe { running.completed(future, outcome) };
    }
    // SAFETY: the caller passes valid arguments.
    unsafe { forward::<N>(2, args) }
}

unsafe extern "C" fn state_set<const N: usize>(args: *mut c_void) -> *mut XLA_FFI_Error {
    // SAFETY: the caller passes valid arguments.
    let error = unsafe { forward::<N>(3, args) };
    if error.is_null() {
        if let Some(running) = innermost() {
            let at = if revision::<N>() < Revision::R8 as usize {
                offset_of!(XLA_FFI_State_Set_Args_R0, state)
            } else {
                offset_of!(XLA_FFI_State_Set_Args, state)
            };
            // SAFETY: the caller passes valid arguments.
            running.state_set(unsafe { field(args, at) });
        }
    }
    error
}

unsafe extern "C" fn state_get<const N: usize>(args: *mut c_void) -> *mut XLA_FFI_Error {
    // SAFETY: the caller passes valid arguments.
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
            // SAFETY: the caller's arguments, of r8 or later.
            let asked = staged.then(|| unsafe { field::<u32>(args, stage) });
            if asked.is_none_or(|stage| stage == instantiate) {
                // SAFETY: the host has initialised it.
                running.state_got(unsafe { field(args, at) });
            }
        }
    }
    error
}

/// Writes a word of a table, which may lie in memory that is for reading alone; `false` where that is not possible.
///
/// # Safety
/// The word is there, and holding `value` it is still what its readers want.
unsafe fn write(at: *mut usize, value: usize) -> bool {
    // SAFETY: asks for a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let start = at.map_addr(|at| at & !(page - 1)).cast();
    // SAFETY: the page is mapped, since the word is there, and is data.
    if unsafe { libc::mprotect(start, page, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
        return false;
    }
    // SAFETY: aligned, as function pointers in a table are, and writable.
    unsafe { AtomicUsize::from_ptr(at) }.store(value, Ordering::Release);
    true
}
