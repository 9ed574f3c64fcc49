//! Hosts for the models: one without a function table, and one that has futures.

use std::sync::OnceLock;

use crate::frame::host::Host;
use crate::frame::pending::Flow;
use crate::frame::pending::sync::{Condvar, Mutex};
use xla_ffi_sys::*;

/// What the host was told of a future: whether it went well, each time.
#[derive(Default)]
struct HostFuture(Mutex<Vec<bool>>, Condvar);

impl HostFuture {
    /// # Safety
    /// `future` was made by `create`, and `wait` has not come back with it.
    unsafe fn complete(future: *mut XLA_FFI_Future, well: bool) {
        // SAFETY: the caller's promise.
        let this = unsafe { &*future.cast::<Self>() };
        // Under the lock to the end: whoever waits takes the memory back.
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
    // SAFETY: whole arguments.
    unsafe { (*args).future = Box::into_raw(Box::<HostFuture>::default()).cast() };
    std::ptr::null_mut()
}

unsafe extern "C" fn available(args: *mut XLA_FFI_Future_SetAvailable_Args) -> *mut XLA_FFI_Error {
    // SAFETY: whole arguments, of a future that is waited for.
    unsafe { HostFuture::complete((*args).future, true) };
    std::ptr::null_mut()
}

unsafe extern "C" fn failed(args: *mut XLA_FFI_Future_SetError_Args) -> *mut XLA_FFI_Error {
    // SAFETY: as above.
    unsafe { HostFuture::complete((*args).future, false) };
    std::ptr::null_mut()
}

unsafe extern "C" fn error(_: *mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error {
    std::ptr::dangling_mut::<usize>().cast()
}

/// A host without a table, and so without futures.
pub(crate) fn bare() -> Host {
    // SAFETY: null is a host without a table.
    unsafe { Host::new(std::ptr::null()) }
}

/// A host with futures and little else.
pub(crate) fn with_futures() -> Host {
    static TABLE: OnceLock<usize> = OnceLock::new();
    let table = *TABLE.get_or_init(|| {
        // SAFETY: numbers, and pointers that may be null.
        let mut table: XLA_FFI_Api = unsafe { std::mem::zeroed() };
        table.struct_size = size_of::<XLA_FFI_Api>();
        table.api_version.minor_version = 5;
        table.XLA_FFI_Error_Create = Some(error);
        table.XLA_FFI_Future_Create = Some(create);
        table.XLA_FFI_Future_SetAvailable = Some(available);
        table.XLA_FFI_Future_SetError = Some(failed);
        std::ptr::from_mut(Box::leak(Box::new(table))).expose_provenance()
    });
    // SAFETY: the table lives for ever.
    unsafe { Host::new(std::ptr::with_exposed_provenance(table)) }
}

pub(crate) fn both() -> [Host; 2] {
    [bare(), with_futures()]
}

/// Waits for the end of a call; whether it went well.
pub(crate) fn went_well(flow: Flow) -> bool {
    match flow {
        Flow::Done => true,
        // SAFETY: a future of `create`, waited for once.
        Flow::Pending(future) => unsafe { Box::from_raw(future.cast::<HostFuture>()) }.wait(),
        _ => false,
    }
}
