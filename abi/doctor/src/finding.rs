//! Findings, which report a problem with its subject, severity and confidence.

pub(crate) use crate::catalogue::Problem;
use serde::Serialize;
use std::fmt;

/// The confidence that a finding is correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The file or a handler's answer proves the finding.
    Proved,
    /// The finding depends on a condition that this tool cannot check.
    Possible,
    /// The tool could not check whether the problem exists.
    Unknown,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Proved => "proved",
            Self::Possible => "possible",
            Self::Unknown => "unknown",
        })
    }
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The library or handler does not load, is refused, or crashes.
    Fails,
    /// A call or a user's machine may fail.
    Risk,
    /// The finding is information and needs no action.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fails => "fails",
            Self::Risk => "risk",
            Self::Note => "note",
        })
    }
}

/// The thing that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The library as a whole, or a part of the library other than a handler.
    Library,
    /// The library on this machine. The finding may not apply on other machines.
    Machine,
    /// The wheel that contains the library.
    Wheel,
    /// A handler of the library, by its name.
    Handler(String),
    /// A target of the original custom calls, by its name.
    Legacy(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Library => "library",
            Self::Machine => "this machine",
            Self::Wheel => "wheel",
            Self::Handler(name) => name,
            Self::Legacy(name) => return write!(f, "legacy target {name}"),
        })
    }
}

impl Serialize for Subject {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A finding about a library, a handler, a machine or a wheel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The confidence that the finding is correct.
    pub confidence: Confidence,
    /// The severity of the problem.
    pub severity: Severity,
    /// The subject of the finding.
    #[serde(rename = "about")]
    pub subject: Subject,
    /// The kind of problem, serialized as its number.
    #[serde(rename = "id")]
    pub problem: Problem,
    /// A sentence that describes the problem.
    pub what: String,
    /// The evidence for the finding.
    pub why: String,
    /// An action that fixes the problem; `None` if no action is known.
    pub fix: Option<String>,
    /// The required library that the finding is about.
    #[serde(skip)]
    pub library: Option<String>,
}

impl Finding {
    /// Returns a finding whose subject is the library.
    #[must_use]
    pub fn new(
        confidence: Confidence,
        severity: Severity,
        problem: Problem,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self {
            confidence,
            severity,
            subject: Subject::Library,
            problem,
            what: what.into(),
            why: why.into(),
            fix: None,
            library: None,
        }
    }

    /// Returns a finding that is proved and has the severity [`Severity::Fails`].
    #[must_use]
    pub fn failure(problem: Problem, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Confidence::Proved, Severity::Fails, problem, what, why)
    }

    /// Returns a finding that is possible and has the severity [`Severity::Risk`].
    #[must_use]
    pub fn risk(problem: Problem, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Confidence::Possible, Severity::Risk, problem, what, why)
    }

    /// Returns a finding that is proved and has the severity [`Severity::Risk`].
    #[must_use]
    pub fn proved_risk(problem: Problem, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Confidence::Proved, Severity::Risk, problem, what, why)
    }

    /// Returns a note that the problem could not be checked, with the confidence [`Confidence::Unknown`].
    #[must_use]
    pub fn unknown(problem: Problem, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Confidence::Unknown, Severity::Note, problem, what, why)
    }

    /// Returns a finding that is proved and has the severity [`Severity::Note`].
    #[must_use]
    pub fn note(problem: Problem, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Confidence::Proved, Severity::Note, problem, what, why)
    }

    /// Sets the subject of the finding.
    #[must_use]
    pub fn about(mut self, subject: Subject) -> Self {
        self.subject = subject;
        self
    }

    /// Sets the handler of this name as the subject.
    #[must_use]
    pub fn about_handler(self, name: &str) -> Self {
        self.about(Subject::Handler(name.to_owned()))
    }

    /// Sets the required library that the finding is about.
    #[must_use]
    pub(crate) fn library(mut self, name: &str) -> Self {
        self.library = Some(name.to_owned());
        self
    }

    /// Sets the action that fixes the problem.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Returns true if the finding is a failure with proof.
    #[must_use]
    pub fn is_proved_failure(&self) -> bool {
        self.confidence == Confidence::Proved && self.severity == Severity::Fails
    }

    /// Returns true if the finding prevents the library from loading. Findings about a damaged manifest do not count,
    /// because not every loader reads the manifest.
    #[must_use]
    pub fn keeps_library_from_loading(&self) -> bool {
        self.is_proved_failure()
            && matches!(self.subject, Subject::Library | Subject::Machine)
            && self.problem != Problem::Manifest
    }
}
