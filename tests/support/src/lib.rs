//! What the tests of several packages share: how a skip is told, where material lies, damaged input.
//! It is a development dependency alone and never published.

pub mod allocations;
pub mod book;
pub mod compiler;
pub mod cost;
pub mod cuda_driver;
pub mod damage;
pub mod examples;
pub mod headers;
pub mod once;
pub mod plugin;
pub mod repository;
mod skip;
pub mod verdicts;
pub mod wheel;
pub mod zig;

pub use repository::{root, target_folder};
pub use skip::skip;
