//! Panics of handlers: caught at the boundary and told with their place.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static LAST_PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

static INSTALL: Once = Once::new();

/// Makes panics remember their place for [`describe`], once in a process; the hook that was there
/// goes on to run.
pub(crate) fn install() {
    INSTALL.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if let Some(place) = info.location() {
                LAST_PLACE.with_borrow_mut(|last| *last = Some(place.to_string()));
            }
            previous(info);
        }));
    });
}

/// A panic as text: who, what and where.
pub(crate) fn describe(who: &str, panic: &(dyn Any + Send)) -> String {
    let what = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text");
    let place = LAST_PLACE
        .with_borrow_mut(Option::take)
        .map_or_else(String::new, |place| format!(", at {place}"));
    format!("{who} panicked: {what}{place}")
}
