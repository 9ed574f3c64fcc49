//! `xla-ffi abi`: show, compare and check revisions of the ABI.

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
    /// List the revisions and the headers that shipped with them.
    Revisions(revisions::Args),
    /// Draw the structs of a revision, a header or a snapshot: bytes, holes, and what moved.
    Show(show::Args),
    /// Classify what changed between two revisions, headers or snapshots, and say what it means.
    Diff(diff::Args),
    /// Tell which revision headers are, or whether the committed snapshots are true.
    Check(check::Args),
    /// Write a test of a mirror in another language: sizes, offsets, values.
    Emit(mirror::Args),
}

impl Args {
    /// The form of the JSON that is wanted, if any.
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

/// From which severity on a change fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Threshold {
    /// Wrong bytes, or the wrong function.
    Breaks,
    /// What does not use the new thing works: that too.
    Lacks,
    /// Every difference.
    Any,
}

impl Threshold {
    /// Whether any change that follows from no other one reaches it.
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

/// What a header has to be.
#[derive(Clone, Debug)]
enum Wanted {
    /// A revision: any of its headers.
    Revision(Revision),
    /// One edition of one header.
    Edition(Edition),
    /// A jaxlib: the edition that it shipped.
    Jaxlib(String),
}

impl Wanted {
    /// Parses a revision, an edition or a jaxlib version.
    fn parse(name: &str) -> Result<Self, String> {
        let edition = edition(name)?;
        Ok(match Revision::from_name(name) {
            Some(revision) => Self::Revision(revision),
            None if edition.name() == name => Self::Edition(edition),
            None => Self::Jaxlib(name.to_owned()),
        })
    }

    /// The edition of the main header, or the one that was named.
    fn edition(&self) -> Edition {
        match self {
            Self::Revision(revision) => Edition::of_revision(*revision),
            Self::Edition(edition) => *edition,
            Self::Jaxlib(version) => Edition::of_jaxlib(Header::Main, version)
                .unwrap_or_else(|| Edition::of_revision(Revision::NEWEST)),
        }
    }

    /// Whether an edition will do.
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

/// A revision on the command line.
fn edition(name: &str) -> Result<Edition, String> {
    if is_not_known_yet(name) {
        let newest = JAXLIBS.last().unwrap_or(&"");
        return Err(format!(
            "jaxlib {name} is not known yet: the newest that this program knows is {newest}"
        ));
    }
    Edition::find(name).ok_or_else(|| {
        format!(
            "no such revision; expected r0 to {}, an edition such as r2-0.4.34, record-0.1 or before-r0, or a \
             jaxlib version (`xla-ffi abi revisions` lists them)",
            Revision::NEWEST
        )
    })
}
