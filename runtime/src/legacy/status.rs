//! The status object, to which targets of the status-returning signatures write.

use std::alloc::Layout;
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xla_ffi_sys::{XlaCustomCallStatus, XlaFfiLegacyStatus};

/// The object to which a target's status pointer refers.
#[repr(C)]
struct Object {
    head: XlaFfiLegacyStatus,
    failure: Mutex<Option<Vec<u8>>>,
}

impl Object {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The addresses of unused objects. Objects are reused, because their large alignment makes new objects expensive.
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
    // SAFETY: the head is the first field of its object, and objects are never freed.
    let object = unsafe { &*this.cast::<Object>() };
    *object.lock() = (failed != 0).then(|| {
        if message.is_null() || len == 0 {
            return vec![];
        }
        // SAFETY: the target guarantees that `message` has `len` bytes.
        unsafe { std::slice::from_raw_parts(message.cast::<u8>(), len) }.to_vec()
    });
}

/// The status of a call of a target: success unless the target sets an error.
pub struct Status {
    /// The address of an object that only this status uses and that is never freed.
    object: usize,
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Status")
            .field(&self.object().lock())
            .finish()
    }
}

impl Default for Status {
    fn default() -> Self {
        Self::new()
    }
}

impl Status {
    /// Returns a status that indicates success.
    #[must_use]
    pub fn new() -> Self {
        let object = idle().pop().unwrap_or_else(make);
        Self { object }
    }

    fn object(&self) -> &Object {
        // SAFETY: objects are completely initialised and never freed.
        unsafe { &*(self.object as *const Object) }
    }

    /// Returns the pointer that the target receives.
    #[must_use]
    pub fn as_ptr(&self) -> *mut XlaCustomCallStatus {
        self.object as *mut XlaCustomCallStatus
    }

    /// Consumes the status and returns the bytes of the target's error message, or `None` for success.
    #[must_use]
    pub fn finish(self) -> Option<Vec<u8>> {
        self.object().lock().take()
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        *self.object().lock() = None;
        idle().push(self.object);
    }
}

fn make() -> usize {
    let layout = Layout::from_size_align(size_of::<Object>(), XlaFfiLegacyStatus::ALIGNMENT);
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
        failure: Mutex::default(),
    };
    // SAFETY: the memory is newly allocated with this layout.
    unsafe { place.write(object) };
    place as usize
}

/// Converts a message to text: bytes that are not UTF-8 are written as `\xNN`, all others are unchanged.
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
        // SAFETY: the runtime created the status object, and never frees it.
        let head = unsafe { &*status.cast::<XlaFfiLegacyStatus>() };
        assert_eq!(head.magic, XlaFfiLegacyStatus::MAGIC);
        assert_eq!(head.this.cast_mut().cast(), status);
        assert_eq!(status as usize % XlaFfiLegacyStatus::ALIGNMENT, 0);
        let set = head.set.expect("a function");
        // SAFETY: the pointer and the length are those of a slice.
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
    fn the_last_word_counts() {
        let status = Status::new();
        write(status.as_ptr(), 1, b"a\0b\xff");
        assert_eq!(status.finish().as_deref(), Some(&b"a\0b\xff"[..]));
        let status = Status::new();
        write(status.as_ptr(), 1, b"no");
        write(status.as_ptr(), 0, b"");
        assert_eq!(status.finish(), None);
        assert_eq!(text(b"a\0b\xff\xfe \xc3\xa4"), "a\0b\\xff\\xfe ä");
    }
}
