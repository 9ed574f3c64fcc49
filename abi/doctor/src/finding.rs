//! One finding: how sure, what it means, what it is about, what has been found; words come last.

use serde::Serialize;
use std::fmt;

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The file, or an answer, shows it.
    Proved,
    /// It happens where a condition holds that cannot be seen from here.
    Possible,
    /// It could not be found out.
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

/// What a finding means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It does not load, is refused, or crashes.
    Fails,
    /// It may go wrong.
    Risk,
    /// Worth knowing.
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

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The library as a whole.
    Library,
    /// This machine: it need not hold on another one.
    Machine,
    /// The wheel that it lies in.
    Wheel,
    /// One handler, by its name.
    Handler(String),
    /// One target of the original custom calls, by its name.
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

/// What a finding has found. Whoever decides looks here: the words of a [`Finding`] are for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// It was not found out whether a handler works on a jaxlib.
    NotKnown,
    /// A jaxlib does not take a handler.
    Refused,
    /// The manifest cannot be read.
    Manifest,
    /// The manifest says of a handler what cannot be.
    Description,
    /// The manifest names a symbol that is not exported, or the command line does.
    NotExported,
    /// The library does not say which of its functions are handlers.
    UnknownHandlers,
    /// The header that it was compiled with: unknown, known to no jaxlib, or told.
    Header,
    /// A library that it needs is missing.
    MissingLibrary,
    /// A symbol is undefined.
    Undefined,
    /// It is linked to somebody's library: Python's, XLA's, jaxlib's.
    LinkedTo,
    /// The glibc that it asks for.
    Glibc,
    /// The libstdc++ that it asks for.
    Libstdcxx,
    /// Where it looks for libraries.
    SearchPath,
    /// What it asks of the loader: executable stack, text relocations, static TLS.
    LoaderFlags,
    /// It does not load.
    DoesNotLoad,
    /// Nothing was run.
    NotRun,
    /// A handler breaks when it is asked for its metadata.
    Breaks,
    /// It is built for another machine than this one.
    OtherMachine,
    /// The macOS that it asks for.
    DeploymentTarget,
    /// How its code is signed, for macOS.
    CodeSignature,
    /// How a handler answers the question for its version.
    Answer,
    /// A handler may use what r0 does not have.
    OldestRuntime,
    /// State arguments laid out for another version.
    StateLayout,
    /// The type of a state has to be registered first.
    StateType,
    /// Future slots that stand elsewhere.
    FutureSlots,
    /// The runtime's memory is overwritten by the metadata.
    MetadataOverrun,
    /// What JAX has no user data for.
    UserData,
    /// Pools of threads of its own.
    Threads,
    /// What it exports beside its handlers.
    Exported,
    /// A wheel may be installed where its libraries do not load.
    WheelPromise,
    /// A wheel is installed in fewer places than its libraries would load in, or in none by an index.
    WheelNarrow,
    /// A wheel has no library.
    NoLibrary,
    /// A library of a wheel is for another machine or system, or is none.
    Foreign,
    /// The tags in a wheel's metadata.
    WheelMetadata,
}

impl Serialize for Problem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How sure.
    pub confidence: Confidence,
    /// What it means.
    pub severity: Severity,
    /// What it is about.
    #[serde(rename = "about")]
    pub subject: Subject,
    /// What has been found: its number.
    #[serde(rename = "id")]
    pub problem: Problem,
    /// What, in words.
    pub what: String,
    /// How it is known.
    pub why: String,
    /// What to do about it.
    pub fix: Option<String>,
}

impl Finding {
    /// A finding about the library as a whole.
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
        }
    }

    /// That something is proved to fail.
    #[must_use]
    pub fn failure(problem: Problem, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Confidence::Proved, Severity::Fails, problem, what, why)
    }

    /// That something may go wrong.
    #[must_use]
    pub fn risk(problem: Problem, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Confidence::Possible, Severity::Risk, problem, what, why)
    }

    /// A fact worth knowing.
    #[must_use]
    pub fn note(problem: Problem, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Confidence::Proved, Severity::Note, problem, what, why)
    }

    /// The same about something else.
    #[must_use]
    pub fn about(mut self, subject: Subject) -> Self {
        self.subject = subject;
        self
    }

    /// The same about a handler.
    #[must_use]
    pub fn about_handler(self, name: &str) -> Self {
        self.about(Subject::Handler(name.to_owned()))
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Whether it is proved that something does not work.
    #[must_use]
    pub fn is_proved_failure(&self) -> bool {
        self.confidence == Confidence::Proved && self.severity == Severity::Fails
    }

    /// Whether the library as a whole does not load: a loader that reads no manifest does not mind a
    /// damaged one.
    #[must_use]
    pub fn keeps_library_from_loading(&self) -> bool {
        self.is_proved_failure()
            && matches!(self.subject, Subject::Library | Subject::Machine)
            && self.problem != Problem::Manifest
    }
}
