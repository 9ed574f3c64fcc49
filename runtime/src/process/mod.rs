//! What this process survives: foreign code that unwinds, and wild addresses.

pub(crate) mod guard;
pub(crate) mod load;
pub(crate) mod probe;

use crate::{Code, Error, Result};

/// Refuses to use threads that another process, of which this one is a fork, has started.
pub(crate) fn check_owner(process: u32) -> Result<()> {
    if process == std::process::id() {
        return Ok(());
    }
    Err(Error::new(
        Code::FailedPrecondition,
        "this process was forked after the library started threads; use spawn or forkserver",
    ))
}
