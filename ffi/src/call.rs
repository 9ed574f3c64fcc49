//! The call as the host laid it out: its frame, its host, and copies of what ends with it.

pub(crate) mod detach;
pub(crate) mod frame;
pub(crate) mod frame_copy;
pub(crate) mod host;
pub(crate) mod raw_attribute;
pub(crate) mod raw_buffer;
