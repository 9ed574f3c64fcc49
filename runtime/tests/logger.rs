//! The program's logger uses the runtime: nothing holds a lock that tells it something.

use std::ffi::c_char;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use xla_ffi_runtime::legacy::Status;
use xla_ffi_sys::{XlaCustomCallStatus, XlaFfiLegacyStatus};

/// The status of a call that has ended.
static KEPT: AtomicPtr<XlaCustomCallStatus> = AtomicPtr::new(std::ptr::null_mut());
static TOLD: AtomicUsize = AtomicUsize::new(0);

fn fail(status: *mut XlaCustomCallStatus) {
    let head: *mut XlaFfiLegacyStatus = status.cast();
    // SAFETY: a status of the runtime's begins so, and lives for ever.
    let set = unsafe { (*head).set }.expect("a function");
    let message: *const c_char = c"again".as_ptr();
    // SAFETY: as above; the message has five bytes.
    unsafe { set(head, 1, message, 5) };
}

struct Writes;

impl log::Log for Writes {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, _: &log::Record<'_>) {
        // Once: what it does tells it again.
        if TOLD.fetch_add(1, Ordering::SeqCst) == 0 {
            fail(KEPT.load(Ordering::SeqCst));
        }
    }

    fn flush(&self) {}
}

#[test]
fn a_logger_may_write_the_status_that_it_is_told_of() {
    log::set_logger(&Writes).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let (send, done) = mpsc::channel();
    std::thread::spawn(move || {
        let status = Status::new();
        KEPT.store(status.as_ptr(), Ordering::SeqCst);
        assert_eq!(status.finish(), None);
        fail(KEPT.load(Ordering::SeqCst));
        send.send(()).unwrap();
    });
    assert_eq!(done.recv_timeout(Duration::from_secs(20)), Ok(()));
    assert_eq!(TOLD.load(Ordering::SeqCst), 2);
}
