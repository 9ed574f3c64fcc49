//! Panics of handlers, which are caught in the entry point and reported with their location.

use std::any::Any;
use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

thread_local! {
    static LAST_PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Installs a panic hook, once per process, that records the location of panics for [`describe`]. The
/// previous hook is still called.
#[inline]
pub(crate) fn install() {
    if !INSTALLED.load(Ordering::Relaxed) {
        install_now();
    }
}

#[cold]
#[inline(never)]
fn install_now() {
    // The panic hook cannot be changed while this thread unwinds.
    if std::thread::panicking() || INSTALLED.swap(true, Ordering::Relaxed) {
        return;
    }
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if let Some(place) = info.location() {
            let place = place.to_string();
            // Thread-local data may already be destroyed when a thread ends. A panic in the hook would
            // abort the process.
            let _ = LAST_PLACE.try_with(|last| last.replace(Some(place)));
        }
        previous(info);
    }));
}

/// Describes a panic as text: the handler (if `who` is not empty), the message and the location. Drops the
/// panic's payload.
pub fn describe(who: &str, panic: Box<dyn Any + Send>) -> String {
    let what = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text");
    let place = LAST_PLACE
        .try_with(RefCell::take)
        .ok()
        .flatten()
        .map_or_else(String::new, |place| format!(", at {place}"));
    let joint = if who.is_empty() { "" } else { " " };
    let text = format!("{who}{joint}panicked: {what}{place}");
    discard(panic);
    text
}

/// Runs `work` and converts a panic to an error.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    install();
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::internal(describe("", panic))))
}

/// Drops a user's value and catches a panic of the value's destructor.
///
/// # Errors
/// If the destructor panics, the payload of the destructor's panic.
pub(crate) fn destroy<T>(value: T) -> std::thread::Result<()> {
    std::panic::catch_unwind(AssertUnwindSafe(|| drop(value)))
}

/// Drops the payload of a panic, and catches a panic of the payload's destructor.
pub(crate) fn discard(panic: Box<dyn Any + Send>) {
    if let Err(again) = destroy(panic) {
        // The payload of the second panic is leaked, because its destructor could also panic.
        std::mem::forget(again);
    }
}

/// Prints an error to stderr if it cannot be reported otherwise. Does not use `eprintln!`, which panics if stderr is
/// a closed pipe; the caller may be C code, where panics must not unwind.
#[cold]
#[inline(never)]
pub fn warn(text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "xla-ffi: {text}");
}
