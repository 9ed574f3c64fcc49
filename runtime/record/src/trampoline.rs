//! Trampolines, which hosts call instead of a handler's functions: they record the call and forward it to the
//! handler.
//!
//! The [`SLOTS`] trampolines are generated at compile time. Each trampoline contains only its index.

use crate::running::{Handler, Slot};
use crate::session::lock;
use crate::{running, session};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error};

/// The maximum number of handler stages that can be interposed in a process.
pub(crate) const SLOTS: usize = 64 * 16;

/// The slots in use. A slot is never freed.
static TAKEN: [OnceLock<Slot>; SLOTS] = [const { OnceLock::new() }; SLOTS];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static TAKING: Mutex<()> = Mutex::new(());

fn taken(index: usize) -> Option<&'static Slot> {
    TAKEN.get(index)?.get()
}

/// Returns the trampoline for a stage of a handler; `None` if all trampolines are in use. The same stage always gets
/// the same trampoline.
pub(crate) fn before(slot: Slot) -> Option<Handler> {
    let _taking = lock(&TAKING);
    let count = COUNT.load(Ordering::Acquire);
    let same = |index: &usize| {
        taken(*index).is_some_and(|taken| {
            taken.function as usize == slot.function as usize
                && taken.handler == slot.handler
                && taken.library == slot.library
                && taken.stages == slot.stages
        })
    };
    let index = match (0..count).find(same) {
        Some(index) => index,
        None => {
            TAKEN.get(count)?.get_or_init(|| slot);
            COUNT.store(count + 1, Ordering::Release);
            count
        }
    };
    Some(TRAMPOLINES[index / 16][index % 16])
}

unsafe extern "C-unwind" fn trampoline<const N: usize>(
    frame: *mut XLA_FFI_CallFrame,
) -> *mut XLA_FFI_Error {
    // SAFETY: the host's arguments are forwarded unchanged.
    unsafe { call(N, frame) }
}

/// Calls the handler in a slot, and records the call during a recording.
///
/// # Safety
/// `frame` must be the call frame that a host passes to the slot's handler.
unsafe fn call(index: usize, frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    let Some(slot) = taken(index) else {
        // Unreachable, because `before` returns a trampoline only after its slot is in use.
        return std::ptr::null_mut();
    };
    // A panic of the recorder must not affect the handler.
    let running = session::current().and_then(|session| {
        // SAFETY: the caller upholds this function's safety contract.
        let begin = || unsafe { running::begin(&session, index, slot, frame) };
        catch_unwind(AssertUnwindSafe(begin)).ok().flatten()
    });
    let Some(running) = running else {
        // SAFETY: the caller upholds this function's safety contract.
        return unsafe { (slot.function)(frame) };
    };
    let inside = running::Inside::new(running);
    // SAFETY: the caller upholds this function's safety contract.
    let error = unsafe { (slot.function)(frame) };
    // SAFETY: the handler returned this error from a call with this frame.
    let _ = catch_unwind(AssertUnwindSafe(|| unsafe {
        inside.returned(error, frame)
    }));
    error
}

macro_rules! trampolines {
    ($($row:literal)*) => {
        [$(trampolines!(@row $row; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)),*]
    };
    (@row $row:literal; $($column:literal)*) => {
        [$(trampoline::<{ $row * 16 + $column }> as Handler),*]
    };
}

static TRAMPOLINES: [[Handler; 16]; SLOTS / 16] = trampolines!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
);
