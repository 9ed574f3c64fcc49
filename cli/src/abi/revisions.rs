//! `xla-ffi abi revisions`: lists the revisions of the ABI.

use crate::output;
use crate::report_format::TextOrJson;
use serde_json::json;
use xla_ffi_abi::declared::{EDITIONS, Edition, summary};
use xla_ffi_abi::model::Header;
use xla_ffi_abi::xla_ffi_sys::Revision;

/// Command line of `abi revisions`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: TextOrJson,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.output.is_json() {
        let revisions: Vec<_> = Revision::ALL
            .into_iter()
            .map(|revision| {
                json!({
                    "revision": revision.name(),
                    "first_jaxlib": revision.first_jaxlib(),
                    "last_jaxlib": revision.last_jaxlib(),
                    "version": [0, revision.minor_version()],
                    "slots": revision.slot_count(),
                    "api_struct_size": revision.api_struct_size(),
                    "api_size": revision.api_size(),
                    "summary": summary(revision),
                    "headers": editions_of(revision).map(|edition| json!({
                        "name": edition.name(),
                        "file": edition.header.file_name(),
                        "first_jaxlib": edition.first_jaxlib,
                        "last_jaxlib": edition.last_jaxlib,
                    })).collect::<Vec<_>>(),
                })
            })
            .collect();
        return output::json(&json!({
            "schema": "xla-ffi-abi-revisions-1",
            "exit": output::ok(),
            "revisions": revisions,
        }));
    }
    let mut text = format!(
        "{:<4} {:<18} {:>7} {:>5} {:>11} {:>6}  changes\n",
        "", "jaxlib", "version", "slots", "struct_size", "sizeof"
    );
    for revision in Revision::ALL {
        let last = revision.last_jaxlib().unwrap_or("");
        let jaxlib = if last == revision.first_jaxlib() {
            last.to_owned()
        } else {
            format!("{}–{last}", revision.first_jaxlib())
        };
        text.push_str(&format!(
            "{:<4} {jaxlib:<18} {:>7} {:>5} {:>11} {:>6}  {}\n",
            revision.name(),
            format!("0.{}", revision.minor_version()),
            revision.slot_count(),
            revision.api_struct_size(),
            revision.api_size(),
            summary(revision)
        ));
        let editions: Vec<Edition> = editions_of(revision).collect();
        if editions.len() > 1 {
            for edition in editions {
                let file = match edition.header {
                    Header::Main => String::new(),
                    header => format!(" ({header})"),
                };
                text.push_str(&format!(
                    "       {}: {}{file}\n",
                    edition.name(),
                    edition.jaxlibs()
                ));
            }
        }
    }
    text.push_str("struct_size and sizeof are those of the function table, in bytes.\n");
    output::text(&text)
}

fn editions_of(revision: Revision) -> impl Iterator<Item = Edition> {
    EDITIONS
        .into_iter()
        .filter(move |edition| edition.revision == revision)
}
