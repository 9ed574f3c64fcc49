//! Extensions of a context that the runtime has itself.

pub(crate) mod cancellation;
pub(crate) mod collectives;
pub(crate) mod record;
