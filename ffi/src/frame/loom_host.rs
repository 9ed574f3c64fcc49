//! Hosts for the loom models: a host without a function table, and a host with futures.

use std::sync::OnceLock;

use crate::frame::host::Host;
use crate::frame::pending::Flow;
use crate::frame::pending::sync::{Condvar, Mutex};
use xla_ffi_sys::*;

/// A future with the completions that the host received; true means success.
#[derive(Default)]
struct HostFuture(Mutex<Vec<bool>>, Condvar);

impl HostFuture {
    /// Completes the future and wakes the waiting thread.
    ///
    /// # Safety
    /// `future` was created by `create`, and no `wait` for the future has returned.
    unsafe fn complete(future: *mut XLA_FFI_Future, well: bool) {
        // SAFETY: the caller guarantees that the future is not freed.
        let this = unsafe { &*future.cast::<Self>() };
        // Hold the lock until the end, because the waiting thread frees the memory.
        let mut all = this.0.lock().unwrap();
        all.push(well);
        this.1.notify_all();
    }

    fn wait(self: Box<Self>) -> bool {
        let mut all = self.0.lock().unwrap();
        while all.is_empty() {
            all = self.1.wait(all).unwrap();
        }
        assert_eq!(all.len(), 1, "a future is completed once");
        all[0]
    }
}

unsafe extern "C" fn create(args: *mut XLA_FFI_Future_Create_Args) -> *mut XLA_FFI_Error {
    // SAFETY: the argument struct is complete.
    unsafe { (*args).future = Box::into_raw(Box::<HostFuture>::default()).cast() };
    std::ptr::null_mut()
}

unsafe extern "C" fn available(args: *mut XLA_FFI_Future_SetAvailable_Args) -> *mut XLA_FFI_Error {
    // SAFETY: the argument struct is complete, and a thread waits for the future.
    unsafe { HostFuture::complete((*args).future, true) };
    std::ptr::null_mut()
}

unsafe extern "C" fn failed(args: *mut XLA_FFI_Future_SetError_Args) -> *mut XLA_FFI_Error {
    // SAFETY: the argument struct is complete, and a thread waits for the future.
    unsafe { HostFuture::complete((*args).future, false) };
    std::ptr::null_mut()
}

unsafe extern "C" fn error(_: *mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error {
    std::ptr::dangling_mut::<usize>().cast()
}

/// Returns a host without a table, and therefore without futures.
pub(crate) fn bare() -> Host {
    // SAFETY: a null pointer is a host without a table.
    unsafe { Host::new(std::ptr::null()) }
}

/// Returns a host whose table has only the functions for futures.
pub(crate) fn with_futures() -> Host {
    static TABLE: OnceLock<usize> = OnceLock::new();
    let table = *TABLE.get_or_init(|| {
        // SAFETY: all fields of the struct are numbers or nullable pointers.
        let mut table: XLA_FFI_Api = unsafe { std::mem::zeroed() };
        table.struct_size = size_of::<XLA_FFI_Api>();
        table.api_version.minor_version = 5;
        table.XLA_FFI_Error_Create = Some(error);
        table.XLA_FFI_Future_Create = Some(create);
        table.XLA_FFI_Future_SetAvailable = Some(available);
        table.XLA_FFI_Future_SetError = Some(failed);
        std::ptr::from_mut(Box::leak(Box::new(table))).expose_provenance()
    });
    // SAFETY: the table is never freed.
    unsafe { Host::new(std::ptr::with_exposed_provenance(table)) }
}

pub(crate) fn both() -> [Host; 2] {
    [bare(), with_futures()]
}

/// Waits for the end of a call. Returns true if the call succeeded.
pub(crate) fn went_well(flow: Flow) -> bool {
    match flow {
        Flow::Done => true,
        // SAFETY: `create` returned the future, and only this call waits for it.
        Flow::Pending(future) => unsafe { Box::from_raw(future.cast::<HostFuture>()) }.wait(),
        _ => false,
    }
}
