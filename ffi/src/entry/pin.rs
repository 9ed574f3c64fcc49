//! A library that stays where it is, whoever closes it. The addresses that are looked up are this module's own.

use std::sync::atomic::{AtomicBool, Ordering};

/// Keeps the library in memory for the rest of the process, since it has threads that would run on without it.
pub(crate) fn pin() {
    static PINNED: AtomicBool = AtomicBool::new(false);
    if !PINNED.swap(true, Ordering::Relaxed) {
        pin_now();
    }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn pin_now() {
    use libc::{RTLD_LAZY, RTLD_NODELETE, RTLD_NOLOAD};

    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let here = (pin_now as fn() as *const ()).cast();
    // SAFETY: dladdr writes `info` where it knows the address.
    if unsafe { libc::dladdr(here, info.as_mut_ptr()) } == 0 {
        return;
    }
    // SAFETY: written by dladdr.
    let info = unsafe { info.assume_init() };
    // What is in memory already is not loaded again; where this is the program itself there may be
    // nothing of that name, and nothing to pin.
    // SAFETY: a C string of the loader's.
    unsafe { libc::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) };
}

/// Elsewhere the threads' own counts on the library have to do.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn pin_now() {}
