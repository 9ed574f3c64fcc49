//! The status that a target of the status-returning conventions writes.

use std::alloc::Layout;
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xla_ffi_sys::{XlaCustomCallStatus, XlaFfiLegacyStatus};

/// What lies behind the pointer that targets get.
#[repr(C)]
struct Object {
    head: XlaFfiLegacyStatus,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Whether a call is using the object.
    live: bool,
    failure: Option<Vec<u8>>,
}

impl Object {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Objects that no call uses, by address. They are never unmapped: a target that keeps its status
/// for too long is told, instead of writing into somebody else's memory.
static IDLE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<usize>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn set(
    this: *mut XlaFfiLegacyStatus,
    failed: c_int,
    message: *const c_char,
    len: usize,
) {
    // SAFETY: the head is the first field of an object that lives for ever.
    let object = unsafe { &*this.cast::<Object>() };
    let mut inner = object.lock();
    if !inner.live {
        // The program's logger may write it, too.
        drop(inner);
        crate::host::log::warn(format_args!(
            "a legacy target wrote its status after its call had ended; the write is ignored"
        ));
        return;
    }
    inner.failure = (failed != 0).then(|| {
        if message.is_null() || len == 0 {
            return vec![];
        }
        // SAFETY: the target names `len` bytes.
        unsafe { std::slice::from_raw_parts(message.cast::<u8>(), len) }.to_vec()
    });
}

/// A status for one call: success until the target says something else.
#[derive(Debug)]
pub struct Status {
    object: &'static ObjectAt,
}

/// An object in its place; private, so that `Status` can show itself.
struct ObjectAt(Object);

impl std::fmt::Debug for ObjectAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Status")
            .field(&self.0.lock().failure)
            .finish()
    }
}

// SAFETY: the head is constant, the rest is behind a lock.
unsafe impl Sync for ObjectAt {}

impl Default for Status {
    fn default() -> Self {
        Self::new()
    }
}

impl Status {
    /// A status that says success.
    #[must_use]
    pub fn new() -> Self {
        let place = idle().pop().unwrap_or_else(make);
        // SAFETY: objects are made whole and never freed.
        let object = unsafe { &*(place as *const ObjectAt) };
        *object.0.lock() = Inner {
            live: true,
            failure: None,
        };
        Self { object }
    }

    /// What the target is given.
    #[must_use]
    pub fn as_ptr(&self) -> *mut XlaCustomCallStatus {
        std::ptr::from_ref(self.object).cast_mut().cast()
    }

    /// Ends the call: `None` for success, else the bytes of the message.
    #[must_use]
    pub fn finish(self) -> Option<Vec<u8>> {
        self.object.0.lock().failure.take()
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        *self.object.0.lock() = Inner::default();
        idle().push(std::ptr::from_ref(self.object) as usize);
    }
}

fn make() -> usize {
    let layout = Layout::from_size_align(size_of::<ObjectAt>(), XlaFfiLegacyStatus::ALIGNMENT);
    let layout = layout.expect("the alignment is a power of two");
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
        inner: Mutex::default(),
    };
    // SAFETY: fresh memory of this layout.
    unsafe { place.write(object) };
    place as usize
}

/// A message as text: bytes that are no UTF-8 are shown as `\xNN`, everything else is kept.
pub(super) fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(status: *mut XlaCustomCallStatus, failed: c_int, message: &[u8]) {
        // SAFETY: the status is one of ours, which lives for ever.
        let head = unsafe { &*status.cast::<XlaFfiLegacyStatus>() };
        assert_eq!(head.magic, XlaFfiLegacyStatus::MAGIC);
        assert_eq!(head.this.cast_mut().cast(), status);
        assert_eq!(status as usize % XlaFfiLegacyStatus::ALIGNMENT, 0);
        let set = head.set.expect("a function");
        // SAFETY: the message is a slice.
        unsafe {
            set(
                status.cast(),
                failed,
                message.as_ptr().cast(),
                message.len(),
            )
        };
    }

    #[test]
    fn the_last_word_counts_and_late_ones_do_not() {
        let status = Status::new();
        write(status.as_ptr(), 1, b"a\0b\xff");
        assert_eq!(status.finish().as_deref(), Some(&b"a\0b\xff"[..]));
        let status = Status::new();
        write(status.as_ptr(), 1, b"no");
        write(status.as_ptr(), 0, b"");
        let late = status.as_ptr();
        assert_eq!(status.finish(), None);
        write(late, 1, b"too late");
        assert_eq!(Status::new().finish(), None);
        assert_eq!(text(b"a\0b\xff\xfe \xc3\xa4"), "a\0b\\xff\\xfe ä");
    }
}
