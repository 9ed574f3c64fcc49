//! Statuses of the status-returning conventions, created by this library or by hosts.

use std::ffi::{c_char, c_int};
use std::mem::offset_of;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xla_ffi_sys::{XlaCustomCallStatus, XlaFfiLegacyStatus};

/// A status that this library creates: the head that all SDK statuses share, and the failure.
#[repr(C)]
struct Object {
    head: XlaFfiLegacyStatus,
    failure: Mutex<Option<Vec<u8>>>,
}

// SAFETY: the head never changes, and a mutex protects the failure.
unsafe impl Sync for Object {}

/// Statuses that no call uses. They are never freed, so a pointer that a function keeps remains valid.
static IDLE: Mutex<Vec<&Object>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn set(
    this: *mut XlaFfiLegacyStatus,
    failed: c_int,
    message: *const c_char,
    len: usize,
) {
    // SAFETY: the head is the first field of an object that is never freed.
    let object = unsafe { &*this.cast::<Object>() };
    let failure = (failed != 0).then(|| {
        if message.is_null() || len == 0 {
            return Vec::new();
        }
        // SAFETY: the caller passes `len` bytes.
        unsafe { std::slice::from_raw_parts(message.cast::<u8>(), len) }.to_vec()
    });
    *lock(&object.failure) = failure;
}

/// A status for one call, initially a success.
pub(super) struct Status(&'static Object);

impl Status {
    pub(super) fn acquire() -> Self {
        let idle = lock(&IDLE).pop();
        let object = idle.unwrap_or_else(make);
        *lock(&object.failure) = None;
        Self(object)
    }

    pub(super) fn as_ptr(&self) -> *mut XlaCustomCallStatus {
        std::ptr::from_ref(self.0).cast_mut().cast()
    }

    /// Returns the message of the failure, or `None` if the status is a success.
    pub(super) fn failure(&self) -> Option<Vec<u8>> {
        lock(&self.0.failure).take()
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        lock(&IDLE).push(self.0);
    }
}

#[cold]
fn make() -> &'static Object {
    let layout = std::alloc::Layout::from_size_align(
        size_of::<Object>(),
        const { XlaFfiLegacyStatus::ALIGNMENT },
    )
    .expect("the alignment is a power of two");
    // SAFETY: the size is not 0.
    let place = unsafe { std::alloc::alloc(layout) }.cast::<Object>();
    if place.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    let object = Object {
        head: XlaFfiLegacyStatus {
            magic: XlaFfiLegacyStatus::MAGIC,
            this: place.cast(),
            set: Some(set),
        },
        failure: Mutex::default(),
    };
    // SAFETY: the memory was just allocated with this layout.
    unsafe { place.write(object) };
    // SAFETY: the memory is initialised, and never freed.
    unsafe { &*place }
}

/// Returns a message as text, with bytes that are not UTF-8 as `\xNN`.
pub(super) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(unix)]
mod host {
    use std::ffi::c_void;

    /// Returns true if memory is mapped at the start of a page. This check runs inside a host's call, so it uses no
    /// file descriptor. Only multiples of 65536 are checked, and a host's own status is rarely at such an address.
    pub(super) fn is_mapped(page: *mut c_void, size: usize) -> bool {
        // SAFETY: the kernel only checks the address. With `MS_ASYNC`, nothing is written.
        unsafe { libc::msync(page, size, libc::MS_ASYNC) == 0 }
    }

    /// Returns a function that the program itself exports, or null if it exports no function with
    /// this name.
    pub(super) fn function(name: &std::ffi::CStr) -> *mut c_void {
        // SAFETY: a null name refers to the program itself.
        let program = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
        if program.is_null() {
            return program;
        }
        // SAFETY: the library is open, and the name is a C string.
        unsafe { libc::dlsym(program, name.as_ptr()) }
    }
}

/// The type of the function that writes a status.
type Set = unsafe extern "C" fn(*mut XlaFfiLegacyStatus, c_int, *const c_char, usize);

/// Reads a field from the head of a status of this SDK.
///
/// # Safety
/// 32 bytes at `head` are readable, and a `T` is at the byte offset `offset`.
unsafe fn field<T>(head: *mut XlaFfiLegacyStatus, offset: usize) -> T {
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { head.wrapping_byte_add(offset).cast::<T>().read() }
}

/// Returns the status if this SDK created it, according to its address and contents. Returns `None` for other
/// statuses.
fn ours(status: *mut XlaCustomCallStatus) -> Option<*mut XlaFfiLegacyStatus> {
    let head = status.cast::<XlaFfiLegacyStatus>();
    if head.is_null() || head as usize % XlaFfiLegacyStatus::ALIGNMENT != 0 {
        return None;
    }
    #[cfg(unix)]
    if !host::is_mapped(head.cast(), size_of::<XlaFfiLegacyStatus>()) {
        return None;
    }
    // SAFETY: the page is mapped, and the head of a status with this alignment does not cross a page boundary.
    let magic = unsafe { head.cast::<[u8; 16]>().read() };
    // SAFETY: the page is mapped, and the head of an object with this alignment does not cross a
    // page boundary.
    let this =
        unsafe { field::<*const XlaFfiLegacyStatus>(head, offset_of!(XlaFfiLegacyStatus, this)) };
    (magic == XlaFfiLegacyStatus::MAGIC && this.cast_mut() == head).then_some(head)
}

/// Sets the status to success, replacing any failure, like the C function `XlaCustomCallStatusSetSuccess`.
///
/// ```
/// use xla_ffi_legacy::set_success;
///
/// let mut foreign = [7_u8; 64];
/// // SAFETY: a status that is not of this SDK is left alone.
/// unsafe { set_success(foreign.as_mut_ptr().cast()) };
/// assert_eq!(foreign, [7; 64]);
/// ```
///
/// # Safety
/// The requirements of [`set_failure`] apply.
pub unsafe fn set_success(status: *mut XlaCustomCallStatus) {
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { write(status, None) };
}

/// Sets the status to a failure with a message of arbitrary bytes, like the C function
/// `XlaCustomCallStatusSetFailure`. Each write replaces the previous one.
///
/// The function can write statuses that this SDK creates (an adapter's or the embedded runtime's). Any other status
/// is passed to the host's own function, which no jaxlib exports. Without such a function, the message is printed to
/// standard error and the status is not changed.
///
/// ```
/// # use std::ffi::c_void;
/// use xla_ffi_legacy::{set_failure, set_success};
/// use xla_ffi::sys::XlaCustomCallStatus;
///
/// unsafe extern "C" fn check(out: *mut c_void, _: *mut *const c_void, status: *mut XlaCustomCallStatus) {
///     if out.is_null() {
///         // SAFETY: the call's status.
///         unsafe { set_failure(status, "there is no result") };
///     } else {
///         // SAFETY: as above; it says success of itself, too.
///         unsafe { set_success(status) };
///     }
/// }
///
/// // A foreign status is left alone.
/// let mut foreign = [7_u8; 64];
/// // SAFETY: nothing is read.
/// unsafe { check(std::ptr::null_mut(), std::ptr::null_mut(), foreign.as_mut_ptr().cast()) };
/// assert_eq!(foreign, [7; 64]);
/// ```
///
/// # Safety
/// `status` is null, or was passed by a host to a target that has not returned yet.
pub unsafe fn set_failure(status: *mut XlaCustomCallStatus, message: impl AsRef<[u8]>) {
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { write(status, Some(message.as_ref())) };
}

/// # Safety
/// The requirements of [`set_failure`] apply.
unsafe fn write(status: *mut XlaCustomCallStatus, failure: Option<&[u8]>) {
    let message = failure.unwrap_or_default();
    if status.is_null() {
        return;
    }
    if let Some(head) = ours(status) {
        // SAFETY: `head` is a status of this SDK, which is never freed.
        let set = unsafe { field::<Option<Set>>(head, offset_of!(XlaFfiLegacyStatus, set)) };
        if let Some(set) = set {
            let failed = c_int::from(failure.is_some());
            // SAFETY: the message is a slice, which the function copies.
            unsafe { set(head, failed, message.as_ptr().cast(), message.len()) };
        }
        return;
    }
    // SAFETY: the status belongs to the current call, and a different host created it.
    if unsafe { tell_host(status, failure) } || failure.is_none() {
        return;
    }
    xla_ffi::__private::panics::warn(format_args!(
        "a custom call failed, and its host has no way to report an error: {}; register it \
         through an adapter (xla_ffi_legacy::adapt!)",
        text(message)
    ));
}

/// Passes the status to the host's own function. Returns `false` if the host exports no such
/// function.
///
/// # Safety
/// The requirements of [`set_failure`] apply.
#[cfg(unix)]
unsafe fn tell_host(status: *mut XlaCustomCallStatus, failure: Option<&[u8]>) -> bool {
    use std::ffi::c_void;
    type SetSuccess = unsafe extern "C" fn(*mut XlaCustomCallStatus);
    type SetFailure = unsafe extern "C" fn(*mut XlaCustomCallStatus, *const c_char, usize);
    let name = if failure.is_some() {
        c"XlaCustomCallStatusSetFailure"
    } else {
        c"XlaCustomCallStatusSetSuccess"
    };
    let found = host::function(name);
    if found.is_null() {
        return false;
    }
    match failure {
        Some(message) => {
            // SAFETY: XLA declares this type for the function `XlaCustomCallStatusSetFailure`.
            let function = unsafe { std::mem::transmute::<*mut c_void, SetFailure>(found) };
            // SAFETY: the status belongs to the host, and the message is a slice.
            unsafe { function(status, message.as_ptr().cast(), message.len()) };
        }
        None => {
            // SAFETY: XLA declares this type for the function `XlaCustomCallStatusSetSuccess`.
            let function = unsafe { std::mem::transmute::<*mut c_void, SetSuccess>(found) };
            // SAFETY: the status belongs to the host.
            unsafe { function(status) };
        }
    }
    true
}

#[cfg(not(unix))]
unsafe fn tell_host(_: *mut XlaCustomCallStatus, _: Option<&[u8]>) -> bool {
    false
}
