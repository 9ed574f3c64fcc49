//! What a call does besides calling its handler.

use std::time::Duration;

/// Which stages a call runs besides execute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stages {
    /// Prepare and initialize where the handler has them, as GPU hosts do.
    #[default]
    All,
    /// Neither, as XLA does on CPU so far.
    Cpu,
}

/// What becomes of results that a handler says it wrote and did not ([`Call::unwritten`](crate::Call::unwritten)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unwritten {
    /// They are handed over as they are: zeros, in memory of the runtime's.
    #[default]
    Allowed,
    /// The call fails. Costs a pass over the results before the call and one behind.
    Refused,
}

/// What a call was asked to do besides calling its handler.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) stages: Stages,
    pub(super) limit: Option<Duration>,
    pub(super) unwritten: Unwritten,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            stages: Stages::default(),
            limit: Some(Duration::from_secs(60)),
            unwritten: Unwritten::default(),
        }
    }
}
