//! What this process survives: foreign code that unwinds, crashes or hangs, and wild addresses.

pub(crate) mod across_forks;
pub(crate) mod guard;
pub(crate) mod isolate;
pub(crate) mod load;
pub(crate) mod probe;
