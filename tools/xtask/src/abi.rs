//! `cargo xtask abi import --jaxlib X.Y.Z` reports how a new jaxlib changes the ABI. Maintainers run it
//! regularly.

use crate::{folders, uv};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_abi::declared::{Edition, parse_version};
use xla_ffi_abi::diff::{Change, Class};
use xla_ffi_abi::header::Source;
use xla_ffi_abi::meaning::Severity;
use xla_ffi_abi::model::{Abi, Header};
use xla_ffi_abi::snapshot::{self, Verdict};
use xla_ffi_abi::spelling;
use xla_ffi_sys::Revision;

/// Command line of `abi`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Fetch a jaxlib's headers, print their revision, or propose new snapshots.
    Import(Import),
}

/// Command line of `abi import`.
#[derive(clap::Args)]
struct Import {
    /// Release to import.
    #[arg(long, value_name = "X.Y.Z")]
    jaxlib: String,
    /// Read the headers from this include folder (it holds `xla/ffi/api`) instead of the wheel.
    #[arg(long, value_name = "DIR")]
    headers: Option<PathBuf>,
    /// Folder for proposed snapshots.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const LIBCLANG: &str = "LIBCLANG_PATH";

pub(crate) fn run(args: &Args) -> Result<()> {
    let Task::Import(args) = &args.task;
    ensure!(
        parse_version(&args.jaxlib).is_some(),
        "{:?} is not a version; expected one such as 0.12.0",
        args.jaxlib
    );
    if std::env::var_os(LIBCLANG).is_none() {
        // libclang is found through an environment variable. A program cannot safely change its own environment, so it
        // restarts with the variable set.
        return again(&uv::libclang()?);
    }
    let include = match &args.headers {
        Some(folder) => folder.clone(),
        None => uv::headers(&args.jaxlib)?,
    };
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| folders::checkout().join("abi/snapshots"));
    let mut proposed = Vec::new();
    for Outcome { text, file } in import(&args.jaxlib, &include, &out)? {
        println!("{text}");
        proposed.extend(file.map(|file| file.display().to_string()));
    }
    ensure!(
        proposed.is_empty(),
        "jaxlib {} brings layouts that are not known; proposed: {}. docs/maintaining/new-jaxlib.md describes how to add a revision",
        args.jaxlib,
        proposed.join(", ")
    );
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
    // The restarted program has already reported the reason.
    std::process::exit(status.code().unwrap_or(1));
}

/// The result of comparing one header.
#[derive(Debug)]
struct Outcome {
    text: String,
    /// The proposed snapshot, if the header is not known.
    file: Option<PathBuf>,
}

/// Compares the headers in the folder `include` with the snapshots, and proposes new snapshots in the folder `out`.
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
    for path in others(&folder)? {
        outcomes.push(another(version, &path, out)?);
    }
    Ok(outcomes)
}

/// Returns headers of extensions that no known jaxlib ships. Each extension has a separate header.
fn others(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_other = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut known = Header::ALL.into_iter().map(Header::file_name);
        name.ends_with("_c_api.h") && known.all(|known| known != name)
    };
    let entries = std::fs::read_dir(folder)?;
    let mut found: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    found.retain(is_other);
    found.sort();
    Ok(found)
}

/// Proposes a snapshot of an extension's header, with a text that lists all of its declarations.
fn another(version: &str, path: &Path, out: &Path) -> Result<Outcome> {
    let abi = Source::open(path, &[])?.read()?;
    let shown = path.file_name().unwrap_or_default().to_string_lossy();
    let mut text = format!("jaxlib {version} {shown}: an extension that no known jaxlib ships\n");
    for (name, layout) in &abi.structs {
        text.push_str(&format!("  struct {name}, {} bytes\n", layout.size));
        for field in &layout.fields {
            let declared = spelling::declaration(&field.ty, &field.name);
            text.push_str(&format!("    {:>4}  {declared};\n", field.offset));
        }
    }
    for (name, ty) in &abi.functions {
        text.push_str(&format!("  {};\n", spelling::function_type(ty, name)));
    }
    for (name, ty) in &abi.prototypes {
        text.push_str(&format!("  {};\n", spelling::prototype(ty, name)));
    }
    text.push_str("it gets a header of its own in abi/src/model.rs (`Header`)\n");
    propose(version, &shown, abi.header(), &abi, text, out)
}

/// Writes a proposed snapshot, and a text file with the differences next to it.
fn propose(
    version: &str,
    shown: &str,
    header: Header,
    abi: &Abi,
    text: String,
    out: &Path,
) -> Result<Outcome> {
    let name = format!("proposed-{}-{version}", shown.trim_end_matches(".h"));
    let file = out.join(format!("{name}.json"));
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let json = snapshot::render(&name, header, version, None, abi);
    std::fs::write(&file, json).with_context(|| format!("cannot write {}", file.display()))?;
    std::fs::write(out.join(format!("{name}.diff.txt")), &text)?;
    Ok(Outcome {
        text,
        file: Some(file),
    })
}

/// Returns true if the changes of a header are a new revision of the ABI.
///
/// If a header has only new data types or new compiler annotations, it is a new edition of the newest revision.
fn is_revision(changes: &[Change]) -> bool {
    let mut own = changes.iter().filter(|change| !change.follows);
    own.any(|change| {
        let is_type = change.class == Class::EnumValueAdded && change.owner == "XLA_FFI_DataType";
        !is_type && change.effect.severity() > Severity::None
    })
}

fn one(version: &str, header: Header, path: &Path, out: &Path) -> Result<Outcome> {
    let abi = Source::open(path, &[])?.read()?;
    match snapshot::identify(&abi)? {
        Verdict::Known(snapshot) => {
            let edition = snapshot.edition;
            let mut text = format!(
                "jaxlib {version} {header}: revision {} ({}, {})",
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
            Ok(Outcome { text, file: None })
        }
        Verdict::Unknown { nearest, changes } => {
            let mut text = format!(
                "jaxlib {version} {header}: no known revision; the nearest is {} ({})\n",
                nearest.edition.name(),
                nearest.edition.jaxlibs()
            );
            for change in &changes {
                let follows = if change.follows { " (follows)" } else { "" };
                text.push_str(&format!("  {change}{follows}\n"));
                if !change.follows {
                    text.push_str(&format!(
                        "    built before, loaded on it: {}: {}\n    built on it, loaded before: {}: {}\n",
                        change.effect.old_on_new.severity,
                        change.effect.old_on_new.why,
                        change.effect.new_on_old.severity,
                        change.effect.new_on_old.why
                    ));
                }
            }
            let what = match is_revision(&changes) {
                true => format!("a new revision, r{}", Revision::NEWEST as u8 + 1),
                false => format!("a new edition of {}", nearest.edition.revision),
            };
            text.push_str(&format!("it is {what}\n"));
            let shown = header.file_name();
            propose(version, shown, header, &abi, text, out)
        }
    }
}

#[cfg(test)]
mod tests;
