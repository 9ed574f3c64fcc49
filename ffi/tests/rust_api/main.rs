//! The Rust API of handlers, on the embedded runtime: the handlers are linked into this test and
//! called through the functions that `library!` exports.

mod asynchronous;
mod attributes;
mod context;
mod contracts;
mod devices;
mod errors;
mod frames;
mod in_out;
mod kit;
mod metadata;
mod names;
mod narrowing;
mod operands;
mod own_types;
mod packed;
mod remaining;
mod sizes;
mod stages;
mod statics;
mod structs;
