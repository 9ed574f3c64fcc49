//! A handler to judge: what is known of it, and what it answered.

use crate::verdict::Behaviour;
use serde::Serialize;
use xla_ffi_sys::Revision;

/// What a handler answered to a runtime of one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The runtime's revision, by name.
    pub revision: &'static str,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "outcome")]
pub enum Outcome {
    /// It was accepted.
    Accepted {
        /// The version that it answered.
        version: (i32, i32),
        /// Its traits.
        traits: u32,
        /// Whether it named a type of state.
        has_state_type: bool,
    },
    /// A runtime of this revision refuses it.
    Refused {
        /// Why.
        why: String,
    },
    /// It died, hung, or wrote where it must not.
    Broke {
        /// Whether it wrote behind the metadata, and nothing else.
        #[serde(skip)]
        overran: bool,
        /// How.
        how: String,
    },
    /// It was not asked.
    Skipped {
        /// Why.
        why: String,
    },
}

/// Whether a handler uses something, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// It does.
    Yes(String),
    /// A handler of the library does, perhaps this one.
    Perhaps(String),
    /// It does not.
    No,
    /// Nothing tells.
    Unknown,
}

/// A handler to judge: from the manifest, or named by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Stage and symbol.
    pub stages: Vec<(String, String)>,
    /// The oldest revision on which it can do all of its work, where a manifest says so.
    pub floor: Option<Revision>,
    /// Whether it keeps state.
    pub state: Use,
    /// Whether it completes after it returns.
    pub future: Use,
    /// What it answered.
    pub answers: Vec<Answer>,
}

impl Candidate {
    /// Whether it was asked, and no runtime that asks takes it.
    #[must_use]
    pub fn is_refused_by_all(&self) -> bool {
        let refused = |answer: &Answer| matches!(answer.outcome, Outcome::Refused { .. });
        let taken = |answer: &Answer| matches!(answer.outcome, Outcome::Accepted { .. });
        self.answers.iter().any(refused) && !self.answers.iter().any(taken)
    }

    /// How it answers. One that states its floor and answers that floor's version negotiates: its
    /// floor is the newest version, so there is nothing else to answer.
    #[must_use]
    pub fn behaviour(&self) -> Behaviour {
        match (Behaviour::of(&self.answers), self.floor) {
            (Behaviour::Fixed(minor), Some(floor)) if floor.minor_version() == minor => {
                Behaviour::Negotiates
            }
            (behaviour, _) => behaviour,
        }
    }
}
