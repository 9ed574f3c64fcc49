//! The permissions that new files of this program get, whatever foreign code sets.

use rustix::fs::Mode;
use rustix::process::umask;

/// What the permissions of new files lack, as this program was started with it: handlers change that of their process.
pub(crate) struct FileMask(Mode);

impl FileMask {
    pub(crate) fn kept() -> Self {
        // It is told only by setting another.
        let kept = umask(Mode::RWXG | Mode::RWXO);
        umask(kept);
        Self(kept)
    }

    pub(crate) fn restore(&self) {
        umask(self.0);
    }
}
