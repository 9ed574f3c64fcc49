//! Examines built libraries: symbols, requirements, manifests, and a verdict for each handler on each jaxlib.
//!
//! Every finding has a confidence (proved, possible or unknown) and a reason.

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
