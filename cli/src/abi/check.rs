//! `xla-ffi abi check`.

mod header;

use super::Threshold;
use super::Wanted;
use super::gate::{self, Checked};
use super::input::{Reading, Variant};
use super::mirror::{self, Source};
use crate::baseline::Files;
use crate::output;
use crate::report_format::{Annotation, Form, Format, github, sarif};
use anyhow::bail;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::diff;
use xla_ffi_abi::snapshot::{self, Snapshot};
use xla_ffi_abi::xla_ffi_sys::Revision;

/// Options that say how headers are read and judged: nothing else is by them.
const OF_HEADERS: [&str; 6] = [
    "variant",
    "define",
    "include",
    "prefix",
    "namespace",
    "fail_on",
];
/// Options about what is found in somebody's file.
const OF_FILES: [&str; 3] = ["allow", "baseline", "write_baseline"];

/// Command line of `abi check`.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub(crate) struct Args {
    /// A c_api.h, record_c_api.h or collectives_c_api.h to identify; one or several.
    #[arg(long, value_name = "FILE", group = "what", num_args = 1..)]
    header: Vec<PathBuf>,
    /// A layout that a program printed as JSON: see docs/abi.md, Mirrors in any language.
    #[arg(long, value_name = "FILE", group = "what", conflicts_with_all = OF_HEADERS)]
    layout: Option<PathBuf>,
    /// A library whose debug information has a mirror's types.
    #[arg(long, value_name = "LIB", group = "what", conflicts_with_all = OF_HEADERS)]
    dwarf: Option<PathBuf>,
    /// A naming map: what the mirror calls things.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["header", "snapshots"])]
    names: Option<PathBuf>,
    /// Compare our own definitions with the committed snapshots.
    #[arg(long, group = "what", conflicts_with_all = OF_HEADERS.into_iter().chain(OF_FILES))]
    snapshots: bool,
    /// What it has to be: a revision (any of its headers), an edition or a jaxlib version; for a mirror the newest
    /// revision where none is given.
    #[arg(long, value_name = "REV", conflicts_with = "snapshots", value_parser = Wanted::parse)]
    revision: Option<Wanted>,
    /// A build of the headers with definitions of its own; each is read.
    #[arg(long, value_name = "NAME[:DEFINITION,…]", conflicts_with = "snapshots")]
    variant: Vec<Variant>,
    #[command(flatten)]
    reading: Reading,
    /// From which severity on a difference fails.
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = Threshold::Any)]
    fail_on: Threshold,
    #[command(flatten)]
    known: Files,
    #[command(flatten)]
    form: Form,
}

/// The form of the JSON about headers.
const SCHEMA: &str = "xla-ffi-abi-check-1";

/// The form of the JSON about the committed snapshots.
const SNAPSHOTS: &str = "xla-ffi-abi-snapshots-1";

impl Args {
    /// The form of the JSON that is wanted, if any.
    pub(super) fn schema(&self) -> Option<&'static str> {
        let form = match (self.snapshots, self.header.as_slice()) {
            (true, _) => SNAPSHOTS,
            (false, []) => mirror::SCHEMA,
            (false, _) => SCHEMA,
        };
        (self.form.format == Format::Json).then_some(form)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut variants = args.variant.iter().map(|variant| &variant.name);
    let mut names = BTreeSet::new();
    if let Some(twice) = variants.find(|name| !names.insert(*name)) {
        crate::refuse(format!(
            "two variants are called {twice}: their findings would be told alike"
        ));
    }
    if args.snapshots {
        return match args.form.format {
            Format::Text => snapshots(false),
            Format::Json => snapshots(true),
            Format::Sarif | Format::Github => {
                bail!("--snapshots answers as text or JSON: nobody's file is looked at")
            }
        };
    }
    let mut lists = args.known.read()?;
    let mirror = match (&args.layout, &args.dwarf) {
        (Some(path), _) => Some(Source::Layout(path)),
        (_, Some(path)) => Some(Source::Library(path)),
        _ => None,
    };
    let mut checked = Vec::new();
    if let Some(source) = &mirror {
        let newest = || Edition::of_revision(Revision::NEWEST);
        let edition = args.revision.as_ref().map_or_else(newest, Wanted::edition);
        match mirror::check(source, edition, args.names.as_deref()) {
            Ok(mirror) => checked.push(mirror),
            // SARIF and annotations have no place for an error but a finding.
            Err(error) if matches!(args.form.format, Format::Sarif | Format::Github) => {
                checked.push(header::unreadable(source.path(), None, &error));
            }
            Err(error) => return Err(error),
        }
    }
    let variants: Vec<Option<&Variant>> = match args.variant.as_slice() {
        [] => vec![None],
        some => some.iter().map(Some).collect(),
    };
    for path in &args.header {
        for variant in &variants {
            let (revision, fail_on) = (args.revision.as_ref(), args.fail_on);
            let header = header::check(path, *variant, &args.reading, revision, fail_on);
            checked.push(header.unwrap_or_else(|error| header::unreadable(path, *variant, &error)));
        }
    }
    for checked in &mut checked {
        checked.look_up(&mut lists);
    }
    args.known.write(checked.iter().flat_map(Checked::keys))?;
    let fails =
        |checked: &Checked| checked.fails() && (!args.known.writes() || !checked.is_judged());
    let kind = ["bad-input", "findings", "not-judged"];
    let kind = kind.into_iter().find(|kind| {
        let mut failing = checked.iter().filter(|checked| fails(checked));
        failing.any(|checked| checked.kind == *kind)
    });
    let code = u8::from(kind.is_some());
    let exit = json!({ "code": code, "kind": kind.unwrap_or("ok") });
    let told = || checked.iter().flat_map(|checked| checked.told.clone());
    match (args.form.format, args.schema()) {
        (Format::Json, Some(form)) => {
            output::json(&answer(form, &exit, &checked, mirror.is_some()))?;
        }
        (Format::Sarif, _) => {
            let told: Vec<Annotation> = told().collect();
            output::json(&sarif("xla-ffi abi check", &gate::rules(), &told))?;
        }
        (Format::Github, _) => output::commands(&github(&told().collect::<Vec<_>>()))?,
        _ => {
            for checked in checked.iter().filter(|checked| !fails(checked)) {
                output::text(&checked.text)?;
            }
        }
    }
    for checked in &checked {
        for note in &checked.notes {
            output::tell(format_args!("note: {note}"));
        }
        if fails(checked) {
            output::tell(format_args!("error: {}", checked.text.trim_end()));
        }
    }
    for key in lists.unused() {
        output::tell(format_args!(
            "note: nothing needs this line any more: {key}"
        ));
    }
    Ok(ExitCode::from(code))
}

/// The answer for programs: headers stand in a list, a mirror alone.
fn answer(form: &str, exit: &Value, checked: &[Checked], is_mirror: bool) -> Value {
    let mut values = checked.iter().map(Checked::to_json);
    let told = match is_mirror {
        true => values.next().unwrap_or_default(),
        false => json!({ "headers": values.collect::<Vec<_>>() }),
    };
    let mut answer = json!({ "schema": form, "exit": exit });
    for (key, value) in told.as_object().into_iter().flatten() {
        answer[key] = value.clone();
    }
    answer
}

fn snapshots(as_json: bool) -> anyhow::Result<ExitCode> {
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
        let kind = if wrong.is_empty() { "ok" } else { "findings" };
        output::json(&json!({
            "schema": SNAPSHOTS,
            "exit": { "code": u8::from(!wrong.is_empty()), "kind": kind },
            "snapshots": all.iter().map(header::described).collect::<Vec<_>>(),
            "wrong": wrong,
        }))?;
    }
    if !wrong.is_empty() {
        let wrong = wrong.join("\n  ");
        output::tell(format_args!(
            "error: our definitions and the committed snapshots differ:\n  {wrong}"
        ));
        return Ok(ExitCode::FAILURE);
    }
    if !as_json {
        output::text(&format!(
            "{} snapshots, each equal to our definitions and to no other\n",
            all.len()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn diff_lines(snapshot: &Snapshot) -> Vec<String> {
    diff::changes(&snapshot.abi, &snapshot.edition.declared())
        .iter()
        .map(ToString::to_string)
        .collect()
}
