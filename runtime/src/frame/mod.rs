//! Call frames: what a handler is called with, laid out for a revision.

pub(crate) mod attribute_parser;
pub(crate) mod call_frame;
pub(crate) mod encoded;
pub(crate) mod print;
pub(crate) mod stage;
