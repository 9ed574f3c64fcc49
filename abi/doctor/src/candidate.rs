//! A handler to examine, with its answers to metadata calls.

use serde::Serialize;
use xla_ffi_sys::Revision;

/// A handler's answer to the metadata call of one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The runtime's revision, by name.
    pub revision: &'static str,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The outcome of a metadata call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "outcome")]
pub enum Outcome {
    /// The runtime accepts the answer.
    Accepted {
        /// The API version of the answer.
        version: (i32, i32),
        /// The traits.
        traits: u32,
        /// Whether the answer has a state type.
        has_state_type: bool,
        /// A description of how a runtime of this revision misreads the instantiate stage's state; `None` if it does
        /// not, or if this was not tried.
        #[serde(skip_serializing_if = "Option::is_none")]
        misread: Option<String>,
    },
    /// A runtime of this revision refuses it.
    Refused {
        /// The reason.
        why: String,
    },
    /// The handler crashed, hung, or wrote to other memory.
    Broke {
        /// Whether it only wrote past the end of the metadata.
        #[serde(skip)]
        overran: bool,
        /// The failure.
        how: String,
    },
    /// No metadata call was made.
    Skipped {
        /// The reason.
        why: String,
    },
}

/// The API version that a handler answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// The runtime's version.
    Negotiates,
    /// The version of its headers, on every runtime.
    Fixed(i32),
    /// Unknown.
    Unknown,
}

impl Behaviour {
    /// Determines the behaviour from a handler's answers.
    #[must_use]
    pub fn of(answers: &[Answer]) -> Self {
        let mut minors: Vec<i32> = answers
            .iter()
            .filter_map(|answer| match answer.outcome {
                Outcome::Accepted {
                    version: (0, minor),
                    ..
                } => Some(minor),
                _ => None,
            })
            .collect();
        minors.sort_unstable();
        minors.dedup();
        match minors.as_slice() {
            [] => Self::Unknown,
            [only] => {
                // The same answer to several versions, or accepted by some revisions and refused by others.
                let asked = answers
                    .iter()
                    .filter(|answer| {
                        matches!(
                            answer.outcome,
                            Outcome::Accepted { .. } | Outcome::Refused { .. }
                        )
                    })
                    .count();
                if asked > 1 {
                    Self::Fixed(*only)
                } else {
                    Self::Unknown
                }
            }
            _ => Self::Negotiates,
        }
    }
}

/// The handler's use of a feature, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// The handler uses it.
    Yes(String),
    /// A handler of the library uses it, possibly this one.
    Perhaps(String),
    /// The handler does not use it.
    No,
    /// Not determined.
    Unknown,
}

/// Returns true if a refusal asks for the type of a state, in XLA's words.
pub(crate) fn asks_for_type(why: &str) -> bool {
    why.contains("must be registered before the handler registration")
}

/// A handler to examine, from the manifest or named by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The name.
    pub name: String,
    /// Stages and their symbols.
    pub stages: Vec<(String, String)>,
    /// The oldest supported revision, if the manifest declares it.
    pub floor: Option<Revision>,
    /// Whether the handler has state.
    pub state: Use,
    /// Whether the handler completes after it returns.
    pub future: Use,
    /// Whether the types of its state were registered before the metadata calls.
    pub has_types: bool,
    /// The answers to metadata calls.
    pub answers: Vec<Answer>,
}

impl Candidate {
    /// Returns true if a metadata call was made.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        let skipped = |answer: &Answer| matches!(answer.outcome, Outcome::Skipped { .. });
        !self.answers.iter().all(skipped)
    }

    /// Returns true if some metadata calls refused the handler and none accepted it.
    #[must_use]
    pub fn is_refused_by_all(&self) -> bool {
        let refused = |answer: &Answer| matches!(answer.outcome, Outcome::Refused { .. });
        let taken = |answer: &Answer| matches!(answer.outcome, Outcome::Accepted { .. });
        self.answers.iter().any(refused) && !self.answers.iter().any(taken)
    }

    /// Updates `state` from the answers.
    pub fn learn_state(&mut self) {
        let accepted = |answer: &Answer| match &answer.outcome {
            Outcome::Accepted {
                misread,
                has_state_type,
                ..
            } => (misread.clone(), *has_state_type),
            _ => (None, false),
        };
        let learned: Vec<_> = self.answers.iter().map(accepted).collect();
        if matches!(self.state, Use::Yes(_)) {
            return;
        }
        if let Some(how) = learned.iter().find_map(|(misread, _)| misread.clone()) {
            self.state = Use::Yes(format!("its instantiate stage sets a state: {how}"));
        } else if learned.iter().any(|(_, named)| *named) {
            self.state = Use::Yes("its metadata has a state type".to_owned());
        } else if self.wants_type() {
            self.state = Use::Yes("it requires a registered state type".to_owned());
        }
    }

    /// Returns true if the handler refused because its state's type was not registered. XLA's headers do so from
    /// version 0.2 on.
    #[must_use]
    pub fn wants_type(&self) -> bool {
        let wants = |answer: &Answer| matches!(&answer.outcome, Outcome::Refused { why } if asks_for_type(why));
        self.answers.iter().any(wants)
    }

    /// Returns the handler's behaviour. A handler whose floor is the newest version negotiates, although it has a
    /// single answer.
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
