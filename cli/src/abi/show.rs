//! `xla-ffi abi show`.

use crate::output;
use anyhow::bail;
use serde_json::json;
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::draw;
use xla_ffi_abi::snapshot::{self, Snapshot};

/// Command line of `abi show`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A revision (r0 to r10), an edition (r2-0.4.34, record-0.1) or a jaxlib version.
    #[arg(value_name = "REV", value_parser = super::edition)]
    edition: Edition,
    /// One struct, with or without `XLA_FFI_`.
    #[arg(value_name = "STRUCT")]
    name: Option<String>,
    /// How to write it; `html` is one page that needs nothing else.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The same as `--format json`.
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Html,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let snapshot = snapshot::of_edition(args.edition)?;
    let name = args.edition.name();
    let only = match &args.name {
        Some(wanted) => match draw::find_struct(&snapshot.abi, wanted) {
            Some(found) => Some(found),
            None => bail!(
                "{name} has no struct {wanted:?}; it has {}",
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
    if args.json || args.format == Format::Json {
        return match only {
            Some(only) => output::json(&json!({
                "revision": args.edition.revision.name(),
                "edition": name,
                "name": only,
                "struct": snapshot.abi.structs[only],
            })),
            None => output::json(&json!({
                "revision": args.edition.revision.name(),
                "edition": name,
                "first_jaxlib": args.edition.first_jaxlib,
                "last_jaxlib": args.edition.last_jaxlib,
                "abi": snapshot.abi,
            })),
        };
    }
    let older = older(snapshot)?;
    let pictures = draw::pictures(snapshot, &older, only);
    let title = format!(
        "{} of {name} ({})",
        args.edition.header,
        args.edition.jaxlibs()
    );
    if args.format == Format::Html {
        return output::text(&draw::html(&title, &pictures));
    }
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
    }
    output::text(&text)
}

/// The snapshots of the same header that are older than `snapshot`, oldest first.
fn older(snapshot: &Snapshot) -> anyhow::Result<Vec<&'static Snapshot>> {
    Ok(snapshot::all()?
        .iter()
        .filter(|other| other.edition.header == snapshot.edition.header)
        .take_while(|other| other.edition != snapshot.edition)
        .collect())
}
