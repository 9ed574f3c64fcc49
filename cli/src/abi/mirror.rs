//! `xla-ffi abi emit`, and `xla-ffi abi check` for mirrors. The layouts of a mirror are those that its program prints,
//! or those in debug information.

use super::gate::{Checked, Found};
use crate::output;
use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use std::path::{Path, PathBuf};
use xla_ffi_abi::catalogue::{MIRROR, NOT_JUDGED};
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::dwarf;
use xla_ffi_abi::emit::{self, Language};
use xla_ffi_abi::mirror::{Layout, Names};
use xla_ffi_abi::snapshot::{self, Snapshot};
use xla_ffi_doctor::library;

/// The value of `schema` in the JSON output for a mirror.
pub(super) const SCHEMA: &str = "xla-ffi-abi-mirror-1";

/// Command line of `abi emit`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// ABI to test for: a revision (r9), an edition (r2-0.4.34) or a jaxlib version (0.9.1).
    #[arg(value_name = "ABI", value_parser = super::edition)]
    edition: Edition,
    /// Choose the language of the mirror.
    #[arg(long, value_parser = language())]
    lang: Language,
    /// Map the mirror's names to those of XLA with this JSON file [default: the same names].
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
}

/// Returns a parser for the name of a language.
fn language() -> impl TypedValueParser<Value = Language> {
    let names = Language::NAMED.map(|(name, _)| name);
    PossibleValuesParser::new(names).try_map(|name| Language::named(&name).ok_or("unknown"))
}

pub(crate) fn emit(args: &Args) -> anyhow::Result<()> {
    let snapshot = snapshot::of_edition(args.edition)?;
    let names = names(args.names.as_deref(), snapshot)?;
    let text = emit::emit(&snapshot.abi, &args.edition.name(), &names, args.lang);
    output::text(&text)
}

/// Reads the naming map. Returns an error if the map has names that the revision does not have.
fn names(path: Option<&Path>, snapshot: &Snapshot) -> anyhow::Result<Names> {
    let Some(path) = path else {
        return Ok(Names::default());
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let names = Names::parse(&text).map_err(|error| anyhow::anyhow!("{shown}: {error}"))?;
    let unknown = names.unknown(&snapshot.abi);
    if !unknown.is_empty() {
        let unknown: Vec<&str> = unknown.into_iter().map(String::as_str).collect();
        bail!(
            "{shown} has names that are not in {}: {}",
            snapshot.edition.name(),
            unknown.join(", ")
        );
    }
    let ambiguous = names.ambiguous(&snapshot.abi);
    if !ambiguous.is_empty() {
        bail!(
            "{shown} uses one name for different types: {}",
            ambiguous.join(", ")
        );
    }
    Ok(names)
}

/// The source of a mirror's layouts, which are compared with a revision.
pub(super) enum Source<'a> {
    /// A JSON file with layouts, which the mirror's program printed.
    Layout(&'a Path),
    /// A library whose debug information contains the mirror.
    Library(&'a Path),
}

impl Source<'_> {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Layout(path) | Self::Library(path) => path,
        }
    }
}

/// Compares the layouts of a mirror with a revision.
pub(super) fn check(
    source: &Source<'_>,
    edition: Edition,
    names_file: Option<&Path>,
) -> anyhow::Result<Checked> {
    let snapshot = snapshot::of_edition(edition)?;
    let names = names(names_file, snapshot)?;
    let (path, layouts) = match source {
        Source::Layout(path) => {
            let shown = path.display();
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
            let layout =
                Layout::parse(&text).map_err(|error| anyhow::anyhow!("{shown}: {error}"))?;
            (path, vec![layout])
        }
        Source::Library(path) => {
            let bytes = library::bytes(path)?;
            // All parts of a fat file are compared, because the ABI's layouts do not depend on the machine.
            let expected = Layout::of(&snapshot.abi, &names);
            let mut found = Vec::new();
            for part in library::parts(path, &bytes)? {
                let layouts = dwarf::read_mirror(part.bytes, &expected);
                found.extend(layouts.with_context(|| path.display().to_string())?);
            }
            (path, found)
        }
    };
    let mut judged = 0;
    let mut mistakes = Vec::new();
    let mut absent: Option<Vec<String>> = None;
    for layout in &layouts {
        let found = layout.compare(&snapshot.abi, &names);
        judged = judged.max(found.judged);
        for mistake in found.mistakes {
            if !mistakes.contains(&mistake) {
                mistakes.push(mistake);
            }
        }
        absent = Some(match absent {
            Some(known) => known
                .into_iter()
                .filter(|name| found.absent.contains(name))
                .collect(),
            None => found.absent,
        });
    }
    let absent = absent.unwrap_or_default();
    let shown = path.display();
    let name = edition.name();
    let value = json!({
        "mirror": shown.to_string(),
        "edition": name,
        "judged": judged,
        "mistakes": mistakes,
        "absent": absent,
    });
    // Each text about a mistake starts with the mirror's name of the type or field.
    let found: Vec<Found> = mistakes
        .iter()
        .map(|mistake| {
            let subject = mistake.split(' ').next().unwrap_or_default();
            Found::failure(
                MIRROR,
                subject,
                &format!("{shown} is not {name}: {mistake}"),
            )
        })
        .collect();
    if judged == 0 && found.is_empty() {
        let text = format!(
            "{shown} contains no struct, enumeration or function of {name}: pass a naming map with --names"
        );
        let found = vec![Found::failure(NOT_JUDGED, "file", &text)];
        let mut checked = Checked::new(path, found, text, value);
        checked.kind = "not-judged";
        return Ok(checked);
    }
    let text = match found.is_empty() {
        true => match source {
            Source::Layout(_) => {
                format!(
                    "{shown}: {judged} structs, enumerations, functions and named values match {name}\n"
                )
            }
            Source::Library(_) => format!(
                "{shown}: {judged} structs and enumerations match {name} in sizes, offsets and values; function signatures \
                 and alignments are not in debug information and were not checked\n"
            ),
        },
        false => {
            let number = format!("\n  {} ", MIRROR.id);
            format!("{shown} is not {name}:{number}{}\n", mistakes.join(&number))
        }
    };
    let mut notes = Vec::new();
    if !absent.is_empty() {
        let place = match source {
            Source::Layout(_) => "the mirror",
            Source::Library(_) => "this file's debug information, or not used",
        };
        let absent = absent.join(", ");
        notes.push(format!("not in {place}, so not checked: {absent}"));
    }
    Ok(Checked::new(path, found, text, value).notes(notes))
}
