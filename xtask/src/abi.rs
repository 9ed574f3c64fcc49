//! `cargo xtask abi import --jaxlib X.Y.Z`: what a new jaxlib does to the ABI. The daily job of
//! whoever maintains this.

use crate::{jaxlibs, wheel};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_abi::declared::{Edition, parse_version};
use xla_ffi_abi::header::Source;
use xla_ffi_abi::model::Header;
use xla_ffi_abi::reader::Reader;
use xla_ffi_abi::snapshot::{self, Verdict};

/// Command line of `abi`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Fetch a jaxlib's headers, tell which revision they are, or propose new snapshots.
    Import(Import),
}

/// Command line of `abi import`.
#[derive(clap::Args)]
struct Import {
    /// The release.
    #[arg(long, value_name = "X.Y.Z")]
    jaxlib: String,
    /// Read the headers from this include folder (it holds `xla/ffi/api`) instead of the wheel.
    #[arg(long, value_name = "DIR")]
    headers: Option<PathBuf>,
    /// Where proposed snapshots go.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const LIBCLANG: &str = "LIBCLANG_PATH";

pub(crate) fn run(args: &Args) -> Result<()> {
    let Task::Import(args) = &args.task;
    ensure!(
        parse_version(&args.jaxlib).is_some(),
        "{:?} is no version; expected one such as 0.12.0",
        args.jaxlib
    );
    if std::env::var_os(LIBCLANG).is_none() {
        // libclang is found through the environment, which a program cannot safely change for
        // itself: start over with it set.
        match wheel::libclang() {
            Ok(folder) => return again(&folder),
            Err(error) => println!("note: going on without libclang: {error:#}"),
        }
    }
    let include = match &args.headers {
        Some(folder) => folder.clone(),
        None => wheel::headers(&args.jaxlib)?,
    };
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| jaxlibs::root().join("abi/snapshots"));
    let outcomes = import(&args.jaxlib, &include, &out)?;
    let mut proposed = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Known { text } => println!("{text}"),
            Outcome::Proposed { text, file } => {
                println!("{text}");
                proposed.push(file.display().to_string());
            }
        }
    }
    if !proposed.is_empty() {
        bail!(
            "jaxlib {} brings layouts that are not known; proposed: {}. docs/abi.md says how a \
             revision is added",
            args.jaxlib,
            proposed.join(", ")
        );
    }
    Ok(())
}

fn again(libclang: &Path) -> Result<()> {
    let status = Command::new(std::env::current_exe().context("finding this program")?)
        .args(std::env::args_os().skip(1))
        .env(LIBCLANG, libclang)
        .status()
        .context("starting this program again")?;
    if status.success() {
        return Ok(());
    }
    // The reason has been told already.
    std::process::exit(status.code().unwrap_or(1));
}

/// What became of one header.
#[derive(Debug)]
enum Outcome {
    Known { text: String },
    Proposed { text: String, file: PathBuf },
}

/// Compares the headers in `include` with the snapshots and proposes new ones in `out`.
fn import(version: &str, include: &Path, out: &Path) -> Result<Vec<Outcome>> {
    let folder = include.join("xla/ffi/api");
    let main = folder.join(Header::Main.file_name());
    ensure!(main.is_file(), "{} is not there", main.display());
    let mut outcomes = Vec::new();
    for header in Header::ALL {
        let path = folder.join(header.file_name());
        if path.is_file() {
            outcomes.push(one(version, header, &path, out)?);
        } else {
            println!("jaxlib {version} ships no {header}");
        }
    }
    Ok(outcomes)
}

fn one(version: &str, header: Header, path: &Path, out: &Path) -> Result<Outcome> {
    let opinions = Source::open(path, &[])?.opinions()?;
    ensure!(
        opinions.disagreement.is_empty(),
        "{}: libclang and the compiler read it differently:\n  {}",
        path.display(),
        opinions.disagreement.join("\n  ")
    );
    for (reader, why) in &opinions.missing {
        println!("note: one opinion only: {reader} does not serve: {why}");
    }
    let by = opinions
        .by
        .iter()
        .map(Reader::to_string)
        .collect::<Vec<_>>()
        .join(" and ");
    match snapshot::identify(&opinions.abi)? {
        Verdict::Known(snapshot) => {
            let edition = snapshot.edition;
            let mut text = format!(
                "jaxlib {version} {header}: revision {} ({}, {}), read by {by}",
                edition.revision,
                edition.name(),
                edition.jaxlibs()
            );
            if Edition::of_jaxlib(header, version) != Some(edition) {
                text.push_str(&format!(
                    "\n  note: the table of editions gives {} to {}: extend it in \
                     abi/src/declared.rs and ffi-sys/src/revision.rs",
                    edition.name(),
                    edition.jaxlibs()
                ));
            }
            Ok(Outcome::Known { text })
        }
        Verdict::Unknown { nearest, changes } => {
            let stem = header.file_name().trim_end_matches(".h");
            let name = format!("proposed-{stem}-{version}");
            let file = out.join(format!("{name}.json"));
            std::fs::create_dir_all(out)
                .with_context(|| format!("cannot make {}", out.display()))?;
            let json = snapshot::render(&name, header, version, None, &opinions.abi);
            std::fs::write(&file, json)
                .with_context(|| format!("cannot write {}", file.display()))?;
            let mut text = format!(
                "jaxlib {version} {header}: no known revision; the nearest is {} ({}), read by {by}\n",
                nearest.edition.name(),
                nearest.edition.jaxlibs()
            );
            for change in &changes {
                let follows = if change.follows { " (follows)" } else { "" };
                text.push_str(&format!("  {change}{follows}\n"));
                if !change.follows {
                    text.push_str(&format!(
                        "    built before, loaded on it: {}: {}\n    built on it, loaded before: {}: {}\n",
                        change.effect.old_on_new.harm,
                        change.effect.old_on_new.why,
                        change.effect.new_on_old.harm,
                        change.effect.new_on_old.why
                    ));
                }
            }
            std::fs::write(out.join(format!("{name}.diff.txt")), &text)?;
            Ok(Outcome::Proposed { text, file })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xla_ffi_abi::declared::{EDITIONS, witnesses};
    use xla_ffi_sys::JAXLIBS;

    /// An include folder with our own headers, the main one edited.
    fn edited(from: &str, to: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let api = folder.path().join("xla/ffi/api");
        std::fs::create_dir_all(&api).unwrap();
        let ours = jaxlibs::root().join("include/xla/ffi/api");
        for header in Header::ALL {
            let mut text = std::fs::read_to_string(ours.join(header.file_name())).unwrap();
            if header == Header::Main {
                text = text.replacen(from, to, 1);
            }
            std::fs::write(api.join(header.file_name()), text).unwrap();
        }
        folder
    }

    /// The outcomes; `None`, told as a skip, where nothing here can read a header.
    fn outcomes(test: &str, version: &str, include: &Path, out: &Path) -> Option<Vec<Outcome>> {
        match import(version, include, out) {
            Ok(outcomes) => Some(outcomes),
            Err(error) => match error.downcast_ref() {
                Some(xla_ffi_abi::header::Error::NoReader { .. }) => {
                    println!("skipped: {error:#}");
                    if let Some(path) = std::env::var_os("XLA_FFI_SKIPS") {
                        let mut skips = std::fs::read_to_string(&path).unwrap_or_default();
                        skips.push_str(&format!("{test}: {error:#}\n"));
                        std::fs::write(path, skips).unwrap();
                    }
                    None
                }
                _ => panic!("{error:#}"),
            },
        }
    }

    #[test]
    fn known_headers_are_named() {
        let include = edited("// An XLA_FFI_Array.", "// Another comment.");
        let out = tempfile::tempdir().unwrap();
        let Some(outcomes) = outcomes(
            "known_headers_are_named",
            "0.12.1",
            include.path(),
            out.path(),
        ) else {
            return;
        };
        assert_eq!(outcomes.len(), 3);
        for outcome in outcomes {
            let Outcome::Known { text } = outcome else {
                panic!("{outcome:?}");
            };
            assert!(text.contains("revision r10"), "{text}");
        }
        assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_unknown_header_is_proposed_with_its_diff() {
        let include = edited("  int64_t rank;", "  uint64_t rank;");
        let out = tempfile::tempdir().unwrap();
        let Some(outcomes) = outcomes(
            "an_unknown_header_is_proposed_with_its_diff",
            "0.13.0",
            include.path(),
            out.path(),
        ) else {
            return;
        };
        let Outcome::Proposed { text, file } = &outcomes[0] else {
            panic!("{outcomes:?}");
        };
        assert!(text.contains("retyped: XLA_FFI_Buffer.rank"), "{text}");
        assert!(file.is_file());
        let diff = out.path().join("proposed-c_api-0.13.0.diff.txt");
        assert_eq!(std::fs::read_to_string(diff).unwrap(), *text);
        assert!(matches!(outcomes[1], Outcome::Known { .. }));
    }

    #[test]
    fn every_edition_has_a_witness() {
        let versions = witnesses(&JAXLIBS);
        assert!(versions.starts_with(&JAXLIBS));
        for edition in EDITIONS {
            assert!(
                versions
                    .iter()
                    .any(|v| Edition::of_jaxlib(edition.header, v) == Some(edition)),
                "{}",
                edition.name()
            );
        }
    }
}
