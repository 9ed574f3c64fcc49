//! Events: work of the plugin that goes on behind a call.

use super::api::Api;
use super::raw::{Counted, EventAwait, EventDestroy, EventIsReady, RawEvent};
use crate::{Code, Error, Result};
use std::time::{Duration, Instant};

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
    /// The event's own error, and `DEADLINE_EXCEEDED` past `limit`.
    pub(super) fn wait(&self, limit: Option<Duration>) -> Result<()> {
        if self.event.is_null() {
            return Ok(());
        }
        if let Some(limit) = limit {
            let start = Instant::now();
            let mut pause = Duration::from_micros(20);
            while !self.is_ready()? {
                if start.elapsed() >= limit {
                    return Err(Error::new(
                        Code::DeadlineExceeded,
                        format!("the execution did not end within {limit:?}"),
                    ));
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(5));
            }
        }
        let mut asked = EventAwait::new();
        asked.event = self.event;
        // SAFETY: the invariant.
        unsafe { self.api.call(&mut asked) }
    }

    fn is_ready(&self) -> Result<bool> {
        let mut asked = EventIsReady::new();
        asked.event = self.event;
        // SAFETY: the invariant.
        unsafe { self.api.call(&mut asked) }?;
        Ok(asked.is_ready != 0)
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
