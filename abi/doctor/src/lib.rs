//! What a built library says of itself, and what would go wrong with it, where: its symbols and what it
//! needs, its manifest, and a verdict for each handler on each jaxlib. Every finding says whether it is
//! proved, possible or unknown, and why.

mod candidate;
mod catalogue;
mod description;
mod difference;
mod examination;
mod exported;
mod finding;
pub mod library;
mod link;
pub mod manifest;
mod related_handlers;
mod release;
mod runtimes;
mod threads;
mod verdict;
pub mod wheel;

pub use candidate::{Answer, Behaviour, Candidate, Outcome, Use};
pub use catalogue::{CATALOGUE, Entry, Problem};
pub use difference::{Build, Difference, Step, differences};
pub use examination::Examination;
pub use finding::{Confidence, Finding, Severity, Subject};
pub use release::{RELEASES, Releases, glibc};
pub use verdict::{Loads, Verdict, verdict};
