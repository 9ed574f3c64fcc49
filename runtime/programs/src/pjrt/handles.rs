//! A plugin's client, shared by all objects created from it.

use super::api::Api;
use super::raw::{
    ClientDestroy, EventAwait, EventDestroy, RawClient, RawDevice, RawEvent, SizedStruct,
};
use xla_ffi_runtime::Result;

/// The state shared by a client and all objects created from it.
///
/// Invariant: `client` is a client of the plugin and `device` one of its devices, until this is dropped.
pub(super) struct Shared {
    pub(super) api: Api,
    pub(super) client: *mut RawClient,
    pub(super) device: *mut RawDevice,
    pub(super) platform: String,
}

// SAFETY: PJRT's functions may be called from any thread.
unsafe impl Send for Shared {}
// SAFETY: as above.
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
        // SAFETY: all objects created from the client hold this, so none is left. An error could not be
        // handled.
        let _nothing_to_do = unsafe { self.api.call(&mut freed) };
    }
}

/// An event that is owned by this object.
///
/// Invariant: the pointer is null (nothing to wait for) or an event of this plugin.
pub(super) struct Event {
    api: Api,
    event: *mut RawEvent,
}

impl Event {
    /// Takes ownership of a plugin's event.
    ///
    /// # Safety
    /// `event` is null or an event of this plugin, and its ownership is transferred.
    pub(super) unsafe fn new(api: Api, event: *mut RawEvent) -> Self {
        Self { api, event }
    }

    /// Waits for the event.
    ///
    /// # Errors
    /// The event's own error.
    pub(super) fn wait(&self) -> Result<()> {
        if self.event.is_null() {
            return Ok(());
        }
        let mut asked = EventAwait::new();
        asked.event = self.event;
        // SAFETY: guaranteed by the type's invariant.
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
        // SAFETY: guaranteed by the type's invariant; freed once. An error could not be handled.
        let _nothing_to_do = unsafe { self.api.call(&mut freed) };
    }
}
