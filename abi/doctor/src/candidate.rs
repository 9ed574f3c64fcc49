//! A handler to judge: what is known of it, and what it answered.

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
        /// How a runtime of this revision misread the state that its instantiate stage gave, where that
        /// was tried.
        #[serde(skip_serializing_if = "Option::is_none")]
        misread: Option<String>,
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

/// How a handler answers the question for its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// It answers what the runtime speaks.
    Negotiates,
    /// It answers the version of the header that it was compiled with.
    Fixed(i32),
    /// It cannot be told.
    Unknown,
}

impl Behaviour {
    /// From what a handler answered.
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
                // One answer to runtimes of several versions, or taken by one and refused by others.
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

/// Whether a refusal asks for the type of a state. The words are upstream's.
pub(crate) fn asks_for_type(why: &str) -> bool {
    why.contains("must be registered before the handler registration")
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
    /// Whether the types of its state were registered before it was asked.
    pub has_types: bool,
    /// What it answered.
    pub answers: Vec<Answer>,
}

impl Candidate {
    /// Whether anything was asked of it.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        let skipped = |answer: &Answer| matches!(answer.outcome, Outcome::Skipped { .. });
        !self.answers.iter().all(skipped)
    }

    /// Whether it was asked, and no runtime that asks takes it.
    #[must_use]
    pub fn is_refused_by_all(&self) -> bool {
        let refused = |answer: &Answer| matches!(answer.outcome, Outcome::Refused { .. });
        let taken = |answer: &Answer| matches!(answer.outcome, Outcome::Accepted { .. });
        self.answers.iter().any(refused) && !self.answers.iter().any(taken)
    }

    /// Takes what the answers show of its state.
    pub fn learn_state(&mut self) {
        let accepted = |answer: &Answer| match &answer.outcome {
            Outcome::Accepted {
                misread,
                has_state_type,
                ..
            } => (misread.clone(), *has_state_type),
            _ => (None, false),
        };
        let told: Vec<_> = self.answers.iter().map(accepted).collect();
        if matches!(self.state, Use::Yes(_)) {
            return;
        }
        if let Some(how) = told.iter().find_map(|(misread, _)| misread.clone()) {
            self.state = Use::Yes(format!("its instantiate stage sets one: {how}"));
        } else if told.iter().any(|(_, named)| *named) {
            self.state = Use::Yes("its metadata names the type of a state".to_owned());
        } else if self.wants_type() {
            self.state = Use::Yes("it refuses to work before a type is registered".to_owned());
        }
    }

    /// Whether it refused because no type of a state was registered: what upstream's headers of version 0.2
    /// and later say then.
    #[must_use]
    pub fn wants_type(&self) -> bool {
        let wants = |answer: &Answer| matches!(&answer.outcome, Outcome::Refused { why } if asks_for_type(why));
        self.answers.iter().any(wants)
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
