//! What a host keeps for its handlers: the table's memory, registries, threads, and the objects
//! that handlers hold.

pub(crate) mod bundle;
pub(crate) mod calls;
pub(crate) mod errors;
pub(crate) mod futures;
mod handles;
pub(crate) mod legacy_targets;
pub(crate) mod log;
pub mod metadata;
pub(crate) mod platform;
pub(crate) mod pool;
pub(crate) mod registrations;
pub(crate) mod runtime;
pub(crate) mod shared;
pub(crate) mod state_object;
pub(crate) mod table;
pub(crate) mod types;
