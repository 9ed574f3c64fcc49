//! Events: work of the plugin that goes on behind a call.

use super::api::Api;
use super::raw::{Counted, EventAwait, EventDestroy, RawEvent};
use xla_ffi_runtime::Result;

/// An event that is ours to free.
///
/// Invariant: the pointer is null (nothing to wait for) or an event of this plugin.
pub(super) struct Event {
    api: Api,
    event: *mut RawEvent,
}

impl Event {
    /// # Safety
    /// `event` is null or an event of this plugin that nobody else frees.
    pub(super) unsafe fn new(api: Api, event: *mut RawEvent) -> Self {
        Self { api, event }
    }

    /// Waits until it has happened.
    ///
    /// # Errors
    /// The event's own error.
    pub(super) fn wait(&self) -> Result<()> {
        if self.event.is_null() {
            return Ok(());
        }
        let mut asked = EventAwait::new();
        asked.event = self.event;
        // SAFETY: the invariant.
        unsafe { self.api.call(&mut asked) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.event.is_null() {
            return;
        }
        let mut freed = EventDestroy::new();
        freed.event = self.event;
        // SAFETY: the invariant; freed once. An error would leave nothing to do.
        let _nothing_to_do = unsafe { self.api.call(&mut freed) };
    }
}
