//! Panics of handlers: caught at the boundary and told with their place.

use std::any::Any;
use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

thread_local! {
    static LAST_PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Makes panics remember their place for [`describe`], once in a process; the hook that was there
/// goes on to run.
#[inline]
pub(crate) fn install() {
    if !INSTALLED.load(Ordering::Relaxed) {
        install_now();
    }
}

#[cold]
#[inline(never)]
fn install_now() {
    // The hook cannot be changed while this thread unwinds.
    if std::thread::panicking() || INSTALLED.swap(true, Ordering::Relaxed) {
        return;
    }
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if let Some(place) = info.location() {
            let place = place.to_string();
            // A thread that ends may have none any more; a panic in here would end the process.
            let _ = LAST_PLACE.try_with(|last| last.replace(Some(place)));
        }
        previous(info);
    }));
}

/// A panic as text: who, unless the caller names the handler, what and where. What was thrown is destroyed.
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

/// What `work` gives; a panic in it becomes an error.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    install();
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::internal(describe("", panic))))
}

/// Destroys a value of the user's, whose destructor may panic, where nobody may unwind.
///
/// # Errors
/// What the destructor threw.
pub(crate) fn destroy<T>(value: T) -> std::thread::Result<()> {
    std::panic::catch_unwind(AssertUnwindSafe(|| drop(value)))
}

/// Destroys what a panic threw, whose destructor may panic in its turn.
pub(crate) fn discard(panic: Box<dyn Any + Send>) {
    if let Err(again) = destroy(panic) {
        // One that throws bombs for ever is not worth a process: it leaks.
        std::mem::forget(again);
    }
}

/// Says on stderr what nobody is left to be told. `eprintln!` panics where stderr is a pipe that
/// nobody reads any more, and our caller may be C.
#[cold]
#[inline(never)]
pub fn warn(text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "xla-ffi: {text}");
}
