//! `xla-ffi abi check`.

use super::Threshold;
use super::input::{Reading, Variant};
use super::mirror::{self, Source};
use crate::output;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use xla_ffi_abi::declared::{EDITIONS, Edition};
use xla_ffi_abi::diff::{self, Change};
use xla_ffi_abi::reader::{Opinions, Reader};
use xla_ffi_abi::snapshot::{self, Snapshot, Verdict};
use xla_ffi_abi::xla_ffi_sys::Revision;

/// Command line of `abi check`.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub(crate) struct Args {
    /// A c_api.h, record_c_api.h or collectives_c_api.h to identify; one or several.
    #[arg(long, value_name = "FILE", group = "what", num_args = 1..)]
    header: Vec<PathBuf>,
    /// A layout that a program printed as JSON: see docs/abi.md, Mirrors in any language.
    #[arg(long, value_name = "FILE", group = "what", conflicts_with = "variant")]
    layout: Option<PathBuf>,
    /// A library whose debug information has a mirror's types.
    #[arg(long, value_name = "LIB", group = "what", conflicts_with = "variant")]
    dwarf: Option<PathBuf>,
    /// A naming map: what the mirror calls things.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["header", "snapshots"])]
    names: Option<PathBuf>,
    /// Compare our own definitions with the committed snapshots.
    #[arg(long, group = "what")]
    snapshots: bool,
    /// The revision that it has to be; for a mirror the newest where none is given.
    #[arg(long, value_name = "REV", conflicts_with = "snapshots", value_parser = super::edition)]
    revision: Option<Edition>,
    /// A build of the headers with definitions of its own; each is read.
    #[arg(long, value_name = "NAME[:DEFINITION,…]", conflicts_with = "snapshots")]
    variant: Vec<Variant>,
    #[command(flatten)]
    reading: Reading,
    /// From which harm on a difference fails.
    #[arg(long, value_enum, value_name = "HARM", default_value_t = Threshold::Any)]
    fail_on: Threshold,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.snapshots {
        return snapshots(args.json).map(|()| ExitCode::SUCCESS);
    }
    let mirror = match (&args.layout, &args.dwarf) {
        (Some(path), _) => Some(Source::Layout(path)),
        (_, Some(path)) => Some(Source::Library(path)),
        _ => None,
    };
    if let Some(source) = mirror {
        let edition = args
            .revision
            .unwrap_or_else(|| Edition::of_revision(Revision::NEWEST));
        return mirror::check(&source, edition, args.names.as_deref(), args.json);
    }
    let variants: Vec<Option<&Variant>> = match args.variant.as_slice() {
        [] => vec![None],
        some => some.iter().map(Some).collect(),
    };
    let mut checked = Vec::new();
    for path in &args.header {
        for variant in &variants {
            checked.push(header(args, path, *variant));
        }
    }
    let kind = if checked.iter().any(Result::is_err) {
        "bad-input"
    } else if checked.iter().flatten().any(|header| header.fails) {
        "findings"
    } else {
        "ok"
    };
    let code = u8::from(kind != "ok");
    if args.json {
        let headers: Vec<Value> = checked
            .iter()
            .map(|header| match header {
                Ok(header) => header.value.clone(),
                Err(error) => json!({ "error": crate::error_text(error) }),
            })
            .collect();
        output::json(&json!({
            "schema": "xla-ffi-abi-check-1",
            "exit": { "code": code, "kind": kind },
            "headers": headers,
        }))?;
    }
    for header in &checked {
        match header {
            Ok(header) if header.fails => eprintln!("error: {}", output::printable(&header.text)),
            Ok(_) if args.json => {}
            Ok(header) => output::text(&header.text)?,
            Err(error) => eprintln!("error: {}", crate::error_text(error)),
        }
    }
    Ok(ExitCode::from(code))
}

/// What became of one header.
struct Checked {
    fails: bool,
    text: String,
    value: Value,
}

fn header(args: &Args, path: &Path, variant: Option<&Variant>) -> anyhow::Result<Checked> {
    let title = match variant {
        Some(variant) => format!("{} ({})", path.display(), variant.name),
        None => path.display().to_string(),
    };
    let opinions = args.reading.opinions(path, variant)?;
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
    let fails = known.is_none() && args.fail_on.is_reached(changes);
    let value = json!({
        "header": path.display().to_string(),
        "variant": variant.map(|variant| &variant.name),
        "file": opinions.abi.header().file_name(),
        "readers": opinions.by.iter().map(|reader| name(*reader)).collect::<Vec<_>>(),
        "missing": opinions.missing.iter().map(|(reader, why)| {
            json!({ "reader": name(*reader), "why": why })
        }).collect::<Vec<_>>(),
        "version": opinions.abi.version().map(|(major, minor)| [major, minor]),
        "revision": known.map(|snapshot| snapshot.edition.revision.name()),
        "edition": known.map(|snapshot| snapshot.edition.name()),
        "nearest": described(nearest),
        "passes": !fails,
        "changes": changes,
    });
    let edition = nearest.edition;
    let text = if known.is_some() {
        format!(
            "{title}: {} of revision {} ({}, {}), read by {readers}\n",
            edition.header,
            edition.revision,
            edition.name(),
            edition.jaxlibs()
        )
    } else {
        let name = edition.name();
        let own = changes.iter().filter(|change| !change.follows).count();
        let told = super::diff::report(changes, &name, "this header");
        let what = match args.revision {
            Some(_) => format!(
                "{title} is not {name} ({}): {own} differences",
                edition.jaxlibs()
            ),
            None => format!(
                "{title} is not a revision that a jaxlib shipped; the nearest is {name} ({}), with {own} \
                 differences",
                edition.jaxlibs()
            ),
        };
        format!("{what} of their own, read by {readers}\n{told}")
    };
    Ok(Checked { fails, text, value })
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
