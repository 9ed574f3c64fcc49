//! A handler to examine, with its answers to metadata calls.

use serde::Serialize;
use xla_ffi_sys::Revision;

/// A handler's answer to the metadata call by a runtime of one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The name of the runtime's revision, such as `r9`.
    pub revision: &'static str,
    /// The outcome of the metadata call.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The outcome of a metadata call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "outcome")]
pub enum Outcome {
    /// A runtime of this revision accepts the handler.
    Accepted {
        /// The API version, major and minor, that the handler answers with.
        version: (i32, i32),
        /// The handler's traits as bits.
        traits: u32,
        /// Whether the handler's metadata contains the type of its state.
        has_state_type: bool,
        /// A description of the wrong value that a runtime of this revision reads as the instantiate stage's state.
        /// `None` if the runtime reads the state correctly, or if reading the state was not tried.
        #[serde(skip_serializing_if = "Option::is_none")]
        misread: Option<String>,
    },
    /// A runtime of this revision refuses the handler.
    Refused {
        /// The reason for the refusal.
        why: String,
    },
    /// The handler crashed, hung, or wrote outside the memory for its metadata.
    Broke {
        /// Whether the handler's only failure was a write past the end of its metadata.
        #[serde(skip)]
        overran: bool,
        /// A description of the failure.
        how: String,
    },
    /// No metadata call was made.
    Skipped {
        /// The reason why no call was made.
        why: String,
    },
}

/// The rule by which a handler chooses the API version that it answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// The handler answers with the runtime's version.
    Negotiates,
    /// The handler answers with version 0.N on every runtime; N is this number.
    Fixed(i32),
    /// The answers do not show how the handler chooses its version.
    Unknown,
}

impl Behaviour {
    /// Determines how the handler chooses its API version, from its answers.
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
                // A single answer does not distinguish a handler that negotiates from a handler with a fixed version.
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

/// Whether a handler uses a feature, with the evidence as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// The handler uses the feature, for the reason in the text.
    Yes(String),
    /// Some handlers of the library use the feature, possibly this handler. The text is the evidence.
    Perhaps(String),
    /// The handler does not use the feature.
    No,
    /// It is unknown whether the handler uses the feature.
    Unknown,
}

/// Returns true if `why`, an error message of XLA, requires that the type of the handler's state is registered first.
pub(crate) fn asks_for_type(why: &str) -> bool {
    why.contains("must be registered before the handler registration")
}

/// A handler to examine, which the manifest contains or the user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The name of the handler.
    pub name: String,
    /// The names of the handler's stages and their symbols.
    pub stages: Vec<(String, String)>,
    /// The oldest revision that the handler supports, if the manifest declares it.
    pub floor: Option<Revision>,
    /// Whether the handler has state, with the evidence.
    pub state: Use,
    /// Whether the handler may complete asynchronously, after its function returns.
    pub future: Use,
    /// Whether the types of the handler's state were registered before the metadata calls.
    pub has_types: bool,
    /// The handler's answers to metadata calls.
    pub answers: Vec<Answer>,
}

impl Candidate {
    /// Returns true if at least one metadata call of this handler was made.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        let skipped = |answer: &Answer| matches!(answer.outcome, Outcome::Skipped { .. });
        !self.answers.iter().all(skipped)
    }

    /// Returns true if at least one revision refused the handler and none accepted it.
    #[must_use]
    pub fn is_refused_by_all(&self) -> bool {
        let refused = |answer: &Answer| matches!(answer.outcome, Outcome::Refused { .. });
        let taken = |answer: &Answer| matches!(answer.outcome, Outcome::Accepted { .. });
        self.answers.iter().any(refused) && !self.answers.iter().any(taken)
    }

    /// Sets `state` to `Yes` if the answers show that the handler has state.
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

    /// Returns true if a runtime refused the handler because the type of the handler's state was not registered.
    /// Handlers built with XLA's headers require this registration from API version 0.2 on.
    #[must_use]
    pub fn wants_type(&self) -> bool {
        let wants = |answer: &Answer| matches!(&answer.outcome, Outcome::Refused { why } if asks_for_type(why));
        self.answers.iter().any(wants)
    }

    /// Returns the rule by which the handler chooses its API version. If all answers have the API version of the
    /// handler's floor, the rule is [`Behaviour::Negotiates`].
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
