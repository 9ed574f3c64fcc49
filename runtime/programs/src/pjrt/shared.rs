//! A client of the plugin, as all that is made with it holds it.

use super::api::Api;
use super::raw::{ClientDestroy, Counted as _, RawClient, RawDevice};

/// What a client and all that is made with it share.
///
/// Invariant: `client` is a client of the plugin and `device` one of its devices, until this is
/// dropped.
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
        // SAFETY: nothing made with the client is left: all of it holds this. An error would leave
        // nothing to do.
        let _nothing_to_do = unsafe { self.api.call(&mut freed) };
    }
}
