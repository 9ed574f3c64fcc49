//! `xla-ffi abi`: shows, compares and checks revisions of the ABI.

mod check;
mod diff;
mod gate;
mod input;
mod mirror;
mod revisions;
mod show;

use clap::{Args as ClapArgs, Subcommand};
use std::process::ExitCode;
use xla_ffi_abi::declared::{Edition, is_not_known_yet};
use xla_ffi_abi::diff::Change;
use xla_ffi_abi::meaning::Severity;
use xla_ffi_abi::model::Header;
use xla_ffi_abi::xla_ffi_sys::{JAXLIBS, Revision};

/// Command line of `abi`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the ABI revisions and the jaxlibs that shipped them.
    Revisions(revisions::Args),
    /// Show the structs of an ABI: offsets, padding, and changes since earlier revisions.
    Show(show::Args),
    /// List the changes between two ABIs and their effect on existing libraries.
    Diff(diff::Args),
    /// Check headers and mirrors (copies of the ABI in any language) against an ABI revision.
    Check(check::Args),
    /// Print a test of sizes, offsets and values for a mirror (a copy of the ABI in any language).
    Emit(mirror::Args),
}

impl Args {
    /// Returns the value of `schema` in the JSON output, if JSON is requested.
    pub(crate) fn schema(&self) -> Option<&'static str> {
        match &self.command {
            Command::Show(args) => args.schema(),
            Command::Diff(args) => args.output.is_json().then_some(diff::SCHEMA),
            Command::Check(args) => args.schema(),
            _ => None,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let done = |outcome: anyhow::Result<()>| outcome.map(|()| ExitCode::SUCCESS);
    match &args.command {
        Command::Revisions(args) => done(revisions::run(args)),
        Command::Show(args) => done(show::run(args)),
        Command::Diff(args) => diff::run(args),
        Command::Check(args) => check::run(args),
        Command::Emit(args) => done(mirror::emit(args)),
    }
}

/// The lowest severity that fails the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Threshold {
    /// Changes that make a call use wrong bytes or a wrong function.
    Breaks,
    /// Also changes after which one side may use something that the other lacks.
    Lacks,
    /// Any change.
    Any,
}

impl Threshold {
    /// Returns true if at least one change has at least this severity. Changes that are consequences of other changes
    /// do not count.
    fn is_reached(self, changes: &[Change]) -> bool {
        let least = match self {
            Self::Breaks => Severity::Breaks,
            Self::Lacks => Severity::Lacks,
            Self::Any => Severity::None,
        };
        let mut own = changes.iter().filter(|change| !change.follows);
        own.any(|change| change.effect.severity() >= least)
    }
}

/// The ABI that a checked header must have, as requested by `--revision`.
#[derive(Clone, Debug)]
enum Wanted {
    /// All editions of this revision's headers.
    Revision(Revision),
    /// Only this edition.
    Edition(Edition),
    /// The editions that this jaxlib version shipped.
    Jaxlib(String),
}

impl Wanted {
    /// Parses the name of a revision or edition, or a jaxlib version.
    fn parse(name: &str) -> Result<Self, String> {
        let edition = edition(name)?;
        Ok(match Revision::from_name(name) {
            Some(revision) => Self::Revision(revision),
            None if edition.name() == name => Self::Edition(edition),
            None => Self::Jaxlib(name.to_owned()),
        })
    }

    /// Returns the requested edition of the main header; for a revision, its newest edition.
    fn edition(&self) -> Edition {
        match self {
            Self::Revision(revision) => Edition::of_revision(*revision),
            Self::Edition(edition) => *edition,
            Self::Jaxlib(version) => Edition::of_jaxlib(Header::Main, version)
                .unwrap_or_else(|| Edition::of_revision(Revision::NEWEST)),
        }
    }

    /// Returns true if a header of this edition is accepted.
    fn takes(&self, edition: Edition) -> bool {
        match self {
            Self::Revision(revision) => {
                edition.revision == *revision && edition != Edition::BEFORE_R0
            }
            Self::Edition(wanted) => edition == *wanted,
            Self::Jaxlib(version) => Edition::of_jaxlib(edition.header, version) == Some(edition),
        }
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Revision(revision) => write!(f, "revision {revision}"),
            Self::Edition(edition) => write!(f, "{} ({})", edition.name(), edition.jaxlibs()),
            Self::Jaxlib(version) => write!(f, "jaxlib {version}"),
        }
    }
}

/// Parses an edition on the command line: a revision, an edition or a jaxlib version.
fn edition(name: &str) -> Result<Edition, String> {
    if is_not_known_yet(name) {
        let newest = JAXLIBS.last().unwrap_or(&"");
        return Err(format!(
            "jaxlib {name} is newer than this xla-ffi, which supports jaxlib up to {newest}: update xla-ffi"
        ));
    }
    Edition::find(name).ok_or_else(|| {
        format!(
            "expected a revision (r0 to {}), an edition (r2-0.4.34, record-0.1, before-r0) or a jaxlib version; \
             `xla-ffi abi revisions` lists them",
            Revision::NEWEST
        )
    })
}
