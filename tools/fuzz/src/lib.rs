//! What reads text and files that others wrote, one target each: whatever comes, the answer is a value or an error, and
//! what is printed reads back.
//!
//! `cargo xtask soak` runs a fuzzer over the targets, which bounds time and memory; `tests/corpus.rs` replays what broke
//! one once.

mod attributes;
mod contract;
mod debug_information;
mod header;
mod library;
mod manifest;
mod npy;
mod recorded_call;
mod shape_proto;
mod snapshot;
mod spec;
mod text;
mod wheel;

/// One parser under attack: its name, which is that of its folders and of `cargo xtask soak NAME`, and what reads an input.
/// It panics where a property does not hold.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("attributes", attributes::attack),
    ("spec", spec::attack),
    ("npy", npy::attack),
    ("manifest", manifest::attack),
    ("library", library::attack),
    ("wheel", wheel::attack),
    ("debug-information", debug_information::attack),
    ("header", header::attack),
    ("shape-proto", shape_proto::attack),
    ("contract", contract::attack),
    ("recorded-call", recorded_call::attack),
    ("snapshot", snapshot::attack),
];
