//! `xla-ffi abi check`: checks headers and mirrors against a revision of the ABI.

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

/// Options that apply only to headers. They conflict with `--layout`, `--dwarf` and `--snapshots`.
const OF_HEADERS: [&str; 7] = [
    "variant",
    "define",
    "include",
    "prefix",
    "namespace",
    "lang",
    "fail_on",
];
/// Options for known findings, which conflict with `--snapshots`.
const OF_FILES: [&str; 3] = ["allow", "baseline", "write_baseline"];

/// Command line of `abi check`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xla-ffi abi check --header third_party/xla/ffi/api/c_api.h --revision r9
  xla-ffi abi check --header c_api.h -I include --fail-on breaks --format github
  xla-ffi abi check --layout layout.json --names names.json
  xla-ffi abi check --dwarf libmine.so --revision 0.9.1")]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub(crate) struct Args {
    /// Check these headers (c_api.h, record_c_api.h or collectives_c_api.h), or identify them without --revision.
    #[arg(long, help_heading = "Input", value_name = "FILE", group = "what", num_args = 1..)]
    header: Vec<PathBuf>,
    /// Check a mirror whose program printed its layout as JSON (docs/abi.md has the format).
    #[arg(long, help_heading = "Input", value_name = "FILE", group = "what", conflicts_with_all = OF_HEADERS)]
    layout: Option<PathBuf>,
    /// Check a mirror by the debug information of its library.
    #[arg(long, help_heading = "Input", value_name = "LIB", group = "what", conflicts_with_all = OF_HEADERS)]
    dwarf: Option<PathBuf>,
    /// Map the mirror's names to those of XLA with this JSON file [default: the same names].
    #[arg(long, help_heading = "Input", value_name = "FILE", conflicts_with_all = ["header", "snapshots"])]
    names: Option<PathBuf>,
    /// Check xla-ffi's own definitions against its snapshots of the jaxlib headers.
    #[arg(long, help_heading = "Input", group = "what", conflicts_with_all = OF_HEADERS.into_iter().chain(OF_FILES))]
    snapshots: bool,
    /// Require this revision (r9), edition (r2-0.4.34) or jaxlib version (0.9.1) [default: any for headers, the newest
    /// for mirrors].
    #[arg(long, help_heading = "Input", value_name = "REV", conflicts_with = "snapshots", value_parser = Wanted::parse)]
    revision: Option<Wanted>,
    /// Check the headers with these definitions, reported under NAME; may be repeated [default: none].
    #[arg(long, help_heading = "Header parsing")]
    #[arg(value_name = "NAME[:DEFINITION,…]")]
    #[arg(conflicts_with = "snapshots")]
    variant: Vec<Variant>,
    #[command(flatten)]
    reading: Reading,
    /// Fail if a difference has at least this severity.
    #[arg(long, help_heading = "Exit status", value_enum, value_name = "SEVERITY", default_value_t = Threshold::Any)]
    fail_on: Threshold,
    #[command(flatten)]
    known: Files,
    #[command(flatten)]
    form: Form,
}

/// The value of `schema` in the JSON output for headers.
const SCHEMA: &str = "xla-ffi-abi-check-1";

/// The value of `schema` in the JSON output for snapshots.
const SNAPSHOTS: &str = "xla-ffi-abi-snapshots-1";

impl Args {
    /// Returns the value of `schema` in the JSON output, if JSON is requested.
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
            "--variant {twice} is given twice: use a different NAME for each variant"
        ));
    }
    if args.snapshots {
        return match args.form.format {
            Format::Text => snapshots(false),
            Format::Json => snapshots(true),
            Format::Sarif | Format::Github => {
                bail!("--snapshots supports --format text and --format json only")
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
            // The formats SARIF and GitHub annotations contain only findings, so an error is written as a finding.
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
    let annotations = || checked.iter().flat_map(|one| one.annotations.clone());
    match (args.form.format, args.schema()) {
        (Format::Json, Some(form)) => {
            output::json(&answer(form, &exit, &checked, mirror.is_some()))?;
        }
        (Format::Sarif, _) => {
            let annotations: Vec<Annotation> = annotations().collect();
            output::json(&sarif("xla-ffi abi check", &gate::rules(), &annotations))?;
        }
        (Format::Github, _) => output::commands(&github(&annotations().collect::<Vec<_>>()))?,
        _ => {
            for checked in checked.iter().filter(|checked| !fails(checked)) {
                output::text(&checked.text)?;
            }
        }
    }
    for checked in &checked {
        for note in &checked.notes {
            output::message(format_args!("note: {note}"));
        }
        if fails(checked) {
            output::message(format_args!("error: {}", checked.text.trim_end()));
        }
    }
    for key in lists.unused() {
        output::message(format_args!(
            "note: --allow or --baseline lists {key}, which was not found: remove the line"
        ));
    }
    Ok(ExitCode::from(code))
}

/// Returns the JSON output for the checked headers or for the checked mirror.
fn answer(form: &str, exit: &Value, checked: &[Checked], is_mirror: bool) -> Value {
    let mut values = checked.iter().map(Checked::to_json);
    let fields = match is_mirror {
        true => values.next().unwrap_or_default(),
        false => json!({ "headers": values.collect::<Vec<_>>() }),
    };
    let mut answer = json!({ "schema": form, "exit": exit });
    for (key, value) in fields.as_object().into_iter().flatten() {
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
                wrong.push(format!("{name}: equal to {}", other.edition.name()));
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
        output::message(format_args!(
            "error: xla-ffi's definitions differ from its snapshots:\n  {wrong}"
        ));
        return Ok(ExitCode::FAILURE);
    }
    if !as_json {
        output::text(&format!(
            "{} snapshots match xla-ffi's definitions, and no two are equal\n",
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
