//! `xla-ffi abi check`.

use crate::output;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use xla_ffi_abi::declared::{EDITIONS, Edition};
use xla_ffi_abi::diff::{self, Change};
use xla_ffi_abi::header::{Error, Source};
use xla_ffi_abi::reader::{Opinions, Reader};
use xla_ffi_abi::snapshot::{self, Snapshot, Verdict};

/// Command line of `abi check`.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub(crate) struct Args {
    /// A c_api.h, record_c_api.h or collectives_c_api.h to identify.
    #[arg(long, value_name = "FILE", group = "what")]
    header: Option<PathBuf>,
    /// Compare our own definitions with the committed snapshots.
    #[arg(long, group = "what")]
    snapshots: bool,
    /// The revision that the header has to be.
    #[arg(long, value_name = "REV", conflicts_with = "snapshots", value_parser = super::edition)]
    revision: Option<Edition>,
    /// A folder in which what the header includes is looked for.
    #[arg(long, value_name = "DIR", conflicts_with = "snapshots")]
    include: Vec<PathBuf>,
    /// Whom to ask; `both` asks the one that is there where the other is missing.
    #[arg(long, value_enum, default_value_t = Ask::Both, conflicts_with = "snapshots")]
    reader: Ask,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Ask {
    Both,
    /// libclang.
    Clang,
    /// A compiler's debug information.
    Dwarf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.header {
        Some(path) => header(args, path),
        None => snapshots(args.json),
    }
}

fn header(args: &Args, path: &Path) -> anyhow::Result<()> {
    let source = Source::open(path, &args.include)?;
    let one = |reader: Reader| -> Result<Opinions, Error> {
        Ok(Opinions {
            abi: source.read(reader)?,
            by: vec![reader],
            missing: Vec::new(),
            disagreement: Vec::new(),
        })
    };
    let opinions = match args.reader {
        Ask::Both => source.opinions()?,
        Ask::Clang => one(Reader::Clang)?,
        Ask::Dwarf => one(Reader::Dwarf)?,
    };
    if !opinions.disagreement.is_empty() {
        bail!(
            "{}: libclang and the compiler read it differently:\n  {}",
            path.display(),
            opinions.disagreement.join("\n  ")
        );
    }
    let verdict = match args.revision {
        Some(edition) => against(edition, &opinions)?,
        None => snapshot::identify(&opinions.abi)?,
    };
    let readers = opinions
        .by
        .iter()
        .map(Reader::to_string)
        .collect::<Vec<_>>()
        .join(" and ");
    for (reader, why) in &opinions.missing {
        eprintln!("note: one opinion only: {reader} does not serve: {why}");
    }
    let (known, nearest, changes): (_, _, &[Change]) = match &verdict {
        Verdict::Known(snapshot) => (Some(*snapshot), *snapshot, &[]),
        Verdict::Unknown { nearest, changes } => (None, *nearest, changes),
    };
    if args.json {
        output::json(&json!({
            "header": path.display().to_string(),
            "file": opinions.abi.header().file_name(),
            "readers": opinions.by.iter().map(|reader| name(*reader)).collect::<Vec<_>>(),
            "missing": opinions.missing.iter().map(|(reader, why)| {
                json!({ "reader": name(*reader), "why": why })
            }).collect::<Vec<_>>(),
            "version": opinions.abi.version().map(|(major, minor)| [major, minor]),
            "revision": known.map(|snapshot| snapshot.edition.revision.name()),
            "edition": known.map(|snapshot| snapshot.edition.name()),
            "nearest": described(nearest),
            "changes": changes,
        }))?;
    }
    if let Some(snapshot) = known {
        if !args.json {
            let edition = snapshot.edition;
            output::text(&format!(
                "{}: {} of revision {} ({}, {}), read by {readers}\n",
                path.display(),
                edition.header,
                edition.revision,
                edition.name(),
                edition.jaxlibs()
            ))?;
        }
        return Ok(());
    }
    let edition = nearest.edition;
    let (title, name) = (path.display(), edition.name());
    let own = changes.iter().filter(|change| !change.follows).count();
    let told = super::diff::report(changes, &name, "this header");
    match args.revision {
        Some(_) => bail!(
            "{title} is not {name} ({}): {own} differences of their own, read by {readers}\n{told}",
            edition.jaxlibs()
        ),
        None => bail!(
            "{title} is not a revision that a jaxlib shipped; the nearest is {name} ({}), with {own} \
             differences of their own, read by {readers}\n{told}",
            edition.jaxlibs()
        ),
    }
}

fn name(reader: Reader) -> &'static str {
    match reader {
        Reader::Clang => "clang",
        Reader::Dwarf => "dwarf",
    }
}

fn described(snapshot: &Snapshot) -> Value {
    json!({
        "edition": snapshot.edition.name(),
        "revision": snapshot.edition.revision.name(),
        "first_jaxlib": snapshot.edition.first_jaxlib,
        "last_jaxlib": snapshot.edition.last_jaxlib,
    })
}

/// Compares with the wanted revision; any header of it will do.
fn against(wanted: Edition, opinions: &Opinions) -> anyhow::Result<Verdict> {
    let header = opinions.abi.header();
    let editions = EDITIONS.into_iter().filter(|edition| {
        edition.header == header
            && (*edition == wanted
                || (edition.revision == wanted.revision
                    && (wanted == Edition::of_revision(wanted.revision)
                        || wanted.header != header)))
    });
    let mut nearest: Option<(&'static Snapshot, Vec<Change>)> = None;
    for edition in editions {
        let snapshot = snapshot::of_edition(edition)?;
        if snapshot.abi == opinions.abi {
            return Ok(Verdict::Known(snapshot));
        }
        let changes = diff::changes(&snapshot.abi, &opinions.abi);
        if nearest
            .as_ref()
            .is_none_or(|(_, least)| diff::distance(&changes) < diff::distance(least))
        {
            nearest = Some((snapshot, changes));
        }
    }
    let (nearest, changes) =
        nearest.with_context(|| format!("revision {} has no {header}", wanted.revision))?;
    Ok(Verdict::Unknown { nearest, changes })
}

fn snapshots(as_json: bool) -> anyhow::Result<()> {
    let all = snapshot::all()?;
    let mut wrong = Vec::new();
    for snapshot in all {
        let name = snapshot.edition.name();
        for line in diff_lines(snapshot) {
            wrong.push(format!("{name}: {line}"));
        }
        for other in all {
            if other.edition != snapshot.edition && other.abi == snapshot.abi {
                wrong.push(format!("{name}: the same as {}", other.edition.name()));
            }
        }
    }
    if as_json {
        output::json(&json!({
            "snapshots": all.iter().map(described).collect::<Vec<_>>(),
            "wrong": wrong,
        }))?;
    }
    if !wrong.is_empty() {
        bail!(
            "our definitions and the committed snapshots differ:\n  {}",
            wrong.join("\n  ")
        );
    }
    if !as_json {
        output::text(&format!(
            "{} snapshots, each equal to our definitions and to no other\n",
            all.len()
        ))?;
    }
    Ok(())
}

fn diff_lines(snapshot: &Snapshot) -> Vec<String> {
    diff::changes(&snapshot.abi, &snapshot.edition.declared())
        .iter()
        .map(ToString::to_string)
        .collect()
}
