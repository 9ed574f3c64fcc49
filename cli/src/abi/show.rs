//! `xla-ffi abi show`: shows the structs of an ABI.

use super::input::{Input, Reading};
use crate::output;
use crate::report_format::TextOrJson;
use anyhow::bail;
use serde_json::{Value, json};
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::draw;
use xla_ffi_abi::model::Header;
use xla_ffi_abi::snapshot::{self, Snapshot, Verdict};
use xla_ffi_abi::spelling;
use xla_ffi_abi::xla_ffi_sys::Revision;

/// Command line of `abi show`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// ABI to show: a revision (r9), an edition (r2-0.4.34), a jaxlib version (0.9.1), a header or a snapshot file.
    #[arg(value_name = "ABI")]
    input: Input,
    /// Struct to show, with or without `XLA_FFI_` [default: all structs].
    #[arg(value_name = "STRUCT")]
    name: Option<String>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    format: TextOrJson,
}

/// The value of `schema` in the JSON output.
const SCHEMA: &str = "xla-ffi-abi-show-1";

impl Args {
    /// Returns the value of `schema` in the JSON output, if JSON is requested.
    pub(super) fn schema(&self) -> Option<&'static str> {
        self.format.is_json().then_some(SCHEMA)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.reading.wants_a_header([&args.input]);
    let name = args.input.name();
    let snapshot = match &args.input {
        Input::Edition(edition) => snapshot::of_edition(*edition)?.clone(),
        Input::File(_) => {
            let (abi, _) = args.input.layouts(&args.reading)?;
            let edition = match abi.header() {
                Header::Other => Edition {
                    header: Header::Other,
                    ..Edition::of_revision(Revision::NEWEST)
                },
                _ => match snapshot::identify(&abi)? {
                    Verdict::Known(known) => known.edition,
                    Verdict::Unknown { nearest, .. } => nearest.edition,
                },
            };
            Snapshot { edition, abi }
        }
    };
    let edition = match &args.input {
        Input::Edition(edition) => Some(*edition),
        Input::File(_) => None,
    };
    let only = match &args.name {
        Some(wanted) => match draw::find_struct(&snapshot.abi, wanted) {
            Some(found) => Some(found),
            None => bail!(
                "{name} has no struct {wanted:?}; its structs are {}",
                snapshot
                    .abi
                    .structs
                    .keys()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        },
        None => None,
    };
    if let Some(form) = args.schema() {
        let mut answer = json!({
            "schema": form,
            "exit": output::ok(),
            "revision": edition.and_then(|edition| edition.revision_name()),
            "edition": name,
        });
        match only {
            Some(only) => {
                answer["name"] = only.into();
                answer["struct"] = with_c(json!(snapshot.abi.structs[only]));
            }
            None => {
                answer["first_jaxlib"] = json!(edition.map(|edition| edition.first_jaxlib));
                answer["last_jaxlib"] = json!(edition.and_then(|edition| edition.last_jaxlib));
                answer["abi"] = abi(&snapshot);
            }
        }
        return output::json(&answer);
    }
    let older = older(&snapshot, edition.is_none())?;
    let pictures = draw::pictures(&snapshot, &older, only);
    let title = match edition {
        Some(edition) => format!("{} of {name} ({})", edition.header, edition.jaxlibs()),
        None => format!("{} in {name}", snapshot.edition.header),
    };
    let mut text = format!("{title}\n\n");
    for picture in &pictures {
        text.push_str(&picture.text());
        text.push('\n');
    }
    if only.is_none() {
        for (name, layout) in &snapshot.abi.enums {
            text.push_str(&format!("{name}\n"));
            let mut values: Vec<_> = layout.values.iter().collect();
            values.sort_by_key(|(_, value)| **value);
            for (name, value) in values {
                text.push_str(&format!("  {value:>4}  {name}\n"));
            }
            text.push('\n');
        }
        for (name, ty) in &snapshot.abi.prototypes {
            text.push_str(&format!("{};\n", spelling::prototype(ty, name)));
        }
    }
    output::text(&text)
}

/// Returns the layouts of a snapshot as JSON, and adds the C declaration of each field.
fn abi(snapshot: &Snapshot) -> Value {
    let mut value = json!(snapshot.abi);
    for layout in value["structs"].as_object_mut().into_iter().flatten() {
        *layout.1 = with_c(layout.1.take());
    }
    value
}

/// Adds the C declaration of each field to a struct in JSON.
fn with_c(mut layout: Value) -> Value {
    for field in layout["fields"].as_array_mut().into_iter().flatten() {
        if let (Some(ty), Some(name)) = (field["type"].as_str(), field["name"].as_str()) {
            field["c"] = spelling::declaration(ty, name).into();
        }
    }
    layout
}

/// Returns the snapshots that are older than `snapshot` and of the same header file, oldest first. If `is_file` is
/// true, returns all snapshots of that header file.
fn older(snapshot: &Snapshot, is_file: bool) -> anyhow::Result<Vec<&'static Snapshot>> {
    Ok(snapshot::all()?
        .iter()
        .filter(|other| other.edition.header == snapshot.edition.header)
        .take_while(|other| is_file || other.edition != snapshot.edition)
        .collect())
}
