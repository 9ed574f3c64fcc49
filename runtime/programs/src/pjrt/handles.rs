//! The owners of a plugin's client and of its events.

use super::api::Api;
use super::raw::{
    ClientDestroy, EventAwait, EventDestroy, RawClient, RawDevice, RawEvent, SizedStruct,
};
use xla_ffi_runtime::Result;

/// The state that a client shares with all objects created from it.
///
/// Invariant: until this value is dropped, `client` is a client of the plugin, and `device` is a device of the
/// client.
pub(super) struct Shared {
    pub(super) api: Api,
    pub(super) client: *mut RawClient,
    pub(super) device: *mut RawDevice,
    pub(super) platform: String,
}

// SAFETY: PJRT's functions may be called from any thread.
unsafe impl Send for Shared {}
// SAFETY: PJRT's functions may be called from any thread.
unsafe impl Sync for Shared {}

impl Shared {
    pub(super) fn api(&self) -> Api {
        self.api
    }

    pub(super) fn client(&self) -> *mut RawClient {
        self.client
    }

    pub(super) fn device(&self) -> *mut RawDevice {
        self.device
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut freed = ClientDestroy::new();
        freed.client = self.client;
        // SAFETY: all objects created from the client share this value, so no such object exists any more. An error
        // of this call cannot be handled.
        let _nothing_to_do = unsafe { self.api.call(&mut freed) };
    }
}

/// The owner of a plugin's event.
///
/// Invariant: the pointer is an event of this plugin, or null if no wait is necessary.
pub(super) struct Event {
    api: Api,
    event: *mut RawEvent,
}

impl Event {
    /// Takes ownership of a plugin's event.
    ///
    /// # Safety
    /// `event` must be null or an event of this plugin. Its ownership moves to the returned value.
    pub(super) unsafe fn new(api: Api, event: *mut RawEvent) -> Self {
        Self { api, event }
    }

    /// Waits until the event occurs.
    ///
    /// # Errors
    /// The error of the event, for example of a failed execution.
    pub(super) fn wait(&self) -> Result<()> {
        if self.event.is_null() {
            return Ok(());
        }
        let mut asked = EventAwait::new();
        asked.event = self.event;
        // SAFETY: the invariant of `Event` guarantees the event.
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
        // SAFETY: the type's invariant guarantees the event, which is freed once. An error of this call cannot be
        // handled.
        let _nothing_to_do = unsafe { self.api.call(&mut freed) };
    }
}
