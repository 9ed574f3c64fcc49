//! What would go wrong with a built library, and where. Every finding says whether it is proved,
//! possible or unknown, and why.
//!
//! [`Examination`] reads the file and runs nothing. Asking handlers for metadata runs them, so it
//! is the caller's work, in a child process; [`Answer`] brings the outcome here.

mod link;
mod verdict;

pub use verdict::{Behaviour, JAXLIBS, Loads, Verdict, jaxlib, verdict};

use crate::library::{Facts, Surroundings};
use crate::manifest::{self, Manifest};
use crate::model::Abi;
use crate::snapshot;
use crate::{dwarf, library};
use serde::Serialize;
use std::fmt;
use std::path::Path;
use xla_ffi_sys::Revision;

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The file, or an answer, shows it.
    Proved,
    /// It happens where a condition holds that cannot be seen from here.
    Possible,
    /// It could not be found out.
    Unknown,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Proved => "proved",
            Self::Possible => "possible",
            Self::Unknown => "unknown",
        })
    }
}

/// What a finding means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// It does not load, is refused, or crashes.
    Fails,
    /// It may go wrong.
    Risk,
    /// Worth knowing.
    Note,
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fails => "fails",
            Self::Risk => "risk",
            Self::Note => "note",
        })
    }
}

/// What a finding is about that need not hold on another machine.
pub const HERE: &str = "this machine";

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How sure.
    pub level: Level,
    /// What it means.
    pub weight: Weight,
    /// `library`, [`HERE`], or a handler's name.
    pub about: String,
    /// What.
    pub what: String,
    /// How it is known.
    pub why: String,
    /// What to do about it.
    pub fix: Option<String>,
}

impl Finding {
    /// A finding about the library as a whole.
    pub(crate) fn new(
        level: Level,
        weight: Weight,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self {
            level,
            weight,
            about: "library".to_owned(),
            what: what.into(),
            why: why.into(),
            fix: None,
        }
    }

    pub(crate) fn about(mut self, about: &str) -> Self {
        self.about = about.to_owned();
        self
    }

    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

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
pub struct Subject {
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

impl Subject {
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

/// What reading the file tells.
#[derive(Debug)]
pub struct Examination {
    /// The facts of the file.
    pub facts: Facts,
    /// Its manifests.
    pub manifests: Vec<Manifest>,
    /// The revisions whose header it was compiled with, as its debug information shows.
    pub compiled_with: Vec<Revision>,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// Reads the library at `path` without running it.
    ///
    /// # Errors
    /// [`library::Error`] when the file is no library.
    pub fn of(path: &Path) -> Result<Self, library::Error> {
        let bytes = library::bytes(path)?;
        let facts = library::read(path, &bytes)?;
        let mut findings = Vec::new();
        let surroundings = Surroundings::of(path, &facts);
        link::findings(path, &facts, &surroundings, &mut findings);
        let manifests = match manifest::read(&bytes) {
            Ok(manifests) => manifests,
            Err(error) => {
                findings.push(
                    Finding::new(
                        Level::Proved,
                        Weight::Fails,
                        "its manifest cannot be read",
                        error.to_string(),
                    )
                    .fix("build the library again; a loader that reads manifests refuses this one"),
                );
                Vec::new()
            }
        };
        exports(&manifests, &facts, &mut findings);
        let compiled_with = compiled_with(&bytes, &mut findings);
        Ok(Self {
            facts,
            manifests,
            compiled_with,
            findings,
        })
    }

    /// The handlers that the manifest names, and those that the user names: each with the symbols
    /// of its stages.
    #[must_use]
    pub fn subjects(&self, named: &[(String, Vec<(String, String)>)]) -> Vec<Subject> {
        let mut subjects: Vec<Subject> = self
            .manifests
            .iter()
            .flat_map(|manifest| &manifest.handlers)
            .map(|handler| Subject {
                name: handler.name.clone(),
                stages: handler
                    .stages
                    .iter()
                    .map(|(stage, symbol)| (stage.to_owned(), symbol.to_owned()))
                    .collect(),
                floor: handler.floor_revision(),
                state: match &handler.state {
                    Some(state) => Use::Yes(format!("the manifest names its type, {}", state.ty)),
                    None => Use::No,
                },
                future: if handler.is_async {
                    Use::Yes("the manifest says async".to_owned())
                } else {
                    Use::No
                },
                answers: Vec::new(),
            })
            .collect();
        for (name, stages) in named {
            let known = subjects.iter().any(|subject| {
                subject.name == *name || stages.iter().all(|stage| subject.stages.contains(stage))
            });
            if !known {
                subjects.push(Subject {
                    name: name.clone(),
                    stages: stages.clone(),
                    floor: None,
                    state: self.usage("5StateI"),
                    future: self.usage("6Future"),
                    answers: Vec::new(),
                });
            }
        }
        subjects
    }

    /// Whether handlers made with the C++ headers use a type, told by the types of their
    /// `xla::ffi::Handler<…>`, whose constructors stay visible in a stripped library.
    fn usage(&self, mangled: &str) -> Use {
        let handlers: Vec<&String> = self
            .facts
            .names
            .iter()
            .filter(|name| name.starts_with("_ZN3xla3ffi7HandlerI") && name.contains("C1E"))
            .collect();
        let using: Vec<&&String> = handlers
            .iter()
            .filter(|name| name.contains(mangled))
            .collect();
        let Some(first) = using.first() else {
            return if handlers.is_empty() {
                Use::Unknown
            } else {
                Use::No
            };
        };
        let short: String = first.chars().take(80).collect();
        let why = format!(
            "{} of the {} C++ handlers in the library: symbol {short}…",
            using.len(),
            handlers.len()
        );
        if using.len() == handlers.len() {
            Use::Yes(why)
        } else {
            Use::Perhaps(why)
        }
    }
}

/// Symbols that the manifest names and the library does not export; handlers without a manifest.
fn exports(manifests: &[Manifest], facts: &Facts, findings: &mut Vec<Finding>) {
    for manifest in manifests {
        for handler in &manifest.handlers {
            for (stage, symbol) in handler.stages.iter() {
                if !facts.exports.contains(symbol) {
                    findings.push(
                        Finding::new(
                            Level::Proved,
                            Weight::Fails,
                            format!(
                                "stage {stage} names the symbol {symbol}, which is not exported"
                            ),
                            "the manifest and the dynamic symbol table disagree",
                        )
                        .about(&handler.name)
                        .fix("do not strip exported symbols; check the linker's version script"),
                    );
                }
            }
        }
        if let Some(register) = &manifest.register
            && !facts.exports.contains(register)
        {
            findings.push(Finding::new(
                Level::Proved,
                Weight::Risk,
                format!("the registration entry point {register} is not exported"),
                "the manifest and the dynamic symbol table disagree",
            ));
        }
    }
    if manifests.is_empty() {
        let candidates: Vec<&str> = facts
            .functions
            .iter()
            .map(String::as_str)
            .filter(|name| !name.starts_with('_'))
            .take(12)
            .collect();
        let exported = if candidates.is_empty() {
            "it exports no function that could be one".to_owned()
        } else {
            format!("it exports {}", candidates.join(", "))
        };
        findings.push(
            Finding::new(
                Level::Unknown,
                Weight::Note,
                "which of its functions are handlers",
                format!("it has no manifest; {exported}"),
            )
            .fix("name handlers with --handler SYMBOL; they are then asked for their metadata"),
        );
    }
}

/// The revisions whose structs the debug information shows.
fn compiled_with(bytes: &[u8], findings: &mut Vec<Finding>) -> Vec<Revision> {
    let units = match dwarf::read_library(bytes) {
        Ok(units) => units,
        Err(error) => {
            findings.push(Finding::new(
                Level::Unknown,
                Weight::Note,
                "which header it was compiled with",
                error.to_string(),
            ));
            return Vec::new();
        }
    };
    let Ok(snapshots) = snapshot::all() else {
        return Vec::new();
    };
    let mut revisions: Vec<Revision> = Vec::new();
    let mut strange = 0;
    for unit in &units {
        let fitting: Vec<Revision> = snapshots
            .iter()
            .filter(|snapshot| {
                snapshot.edition.header == crate::model::Header::Main && fits(unit, &snapshot.abi)
            })
            .map(|snapshot| snapshot.edition.revision)
            .collect();
        strange += usize::from(fitting.is_empty());
        revisions.extend(fitting);
    }
    revisions.sort();
    revisions.dedup();
    if strange > 0 {
        findings.push(
            Finding::new(
                Level::Proved,
                Weight::Risk,
                format!("{strange} of its compilation units know layouts that no jaxlib shipped"),
                "its debug information, compared with every known revision",
            )
            .fix("check the header with `xla-ffi abi check --header`"),
        );
    }
    if let (Some(first), Some(last)) = (revisions.first(), revisions.last()) {
        let range = if first == last {
            first.to_string()
        } else {
            format!("{first} to {last}")
        };
        findings.push(Finding::new(
            Level::Proved,
            Weight::Note,
            format!("compiled with layouts of {range}"),
            "its debug information",
        ));
    }
    revisions
}

/// Whether every complete struct of the main header that a unit knows is as in the snapshot.
fn fits(unit: &Abi, snapshot: &Abi) -> bool {
    let mut shared = 0;
    for (name, layout) in &unit.structs {
        match snapshot.structs.get(name) {
            Some(known) if known.size == layout.size && known.fields == layout.fields => {
                shared += 1;
            }
            // A struct of a later revision, or another layout of this one.
            Some(_) => return false,
            None if name.ends_with("_Args") || name == "XLA_FFI_TypeInfo" => return false,
            None => {}
        }
    }
    shared > 0
}
