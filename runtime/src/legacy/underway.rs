//! Calls of legacy targets, as those see them who wait for a runtime's calls or count them.

use crate::host::calls::Progress;
use crate::{Result, Runtime};
use std::sync::Arc;
use std::time::Instant;

/// A call of a target that is under way until this goes.
pub(super) struct Underway {
    runtime: Runtime,
    progress: Arc<Progress>,
    begun: Instant,
}

impl Underway {
    /// From here on the runtime's calls include one of this target.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` after a shutdown.
    pub(super) fn new(runtime: &Runtime, target: &str) -> Result<Self> {
        let calls = &runtime.shared().calls;
        let progress = calls.enter(&calls.tally(target));
        progress.begin();
        let underway = Self {
            runtime: runtime.clone(),
            progress,
            begun: Instant::now(),
        };
        calls.check().map(|()| underway)
    }

    /// The target has returned, so or so.
    pub(super) fn called(&self, failed: bool) {
        if self.runtime.shared().calls.are_counted() {
            self.progress.tally().add(self.begun.elapsed(), failed);
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.progress.end(false);
        self.runtime.shared().calls.leave(&self.progress);
    }
}
