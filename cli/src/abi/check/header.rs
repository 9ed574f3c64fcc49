//! Checks one header: finds its revision, or the nearest revision and the differences from it.

use super::super::diff::report;
use super::super::gate::{Checked, Found};
use super::super::input::{Reading, Variant};
use super::super::{Threshold, Wanted};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::path::Path;
use xla_ffi_abi::catalogue::UNREADABLE;
use xla_ffi_abi::declared::{EDITIONS, Edition};
use xla_ffi_abi::diff::{self, Change};
use xla_ffi_abi::model::{Abi, Header};
use xla_ffi_abi::snapshot::{self, Snapshot, Verdict};
use xla_ffi_abi::xla_ffi_sys::Revision;

fn title(path: &Path, variant: Option<&Variant>) -> String {
    match variant {
        Some(variant) => format!("{} ({})", path.display(), variant.name),
        None => path.display().to_string(),
    }
}

/// Returns the result for a header that cannot be read, in which the error is a finding.
pub(super) fn unreadable(path: &Path, variant: Option<&Variant>, error: &anyhow::Error) -> Checked {
    let error = crate::output::error_text(error);
    let value = json!({
        "header": path.display().to_string(),
        "variant": variant.map(|variant| &variant.name),
        "error": error,
    });
    let found = Found::failure(UNREADABLE, "file", &error);
    let mut checked = Checked::new(path, vec![found], error, value);
    checked.kind = "bad-input";
    checked
}

/// Reads a header and compares it with the requested ABI, or with all known headers.
pub(super) fn check(
    path: &Path,
    variant: Option<&Variant>,
    reading: &Reading,
    revision: Option<&Wanted>,
    fail_on: Threshold,
) -> anyhow::Result<Checked> {
    let title = title(path, variant);
    let (abi, places) = reading.read(path, variant)?;
    if abi.header() == Header::Other {
        bail!(
            "{title} is a header that no supported jaxlib ships: compare two of its versions with `xla-ffi abi diff`"
        );
    }
    let verdict = match revision {
        Some(wanted) => against(wanted, &abi)?,
        None => snapshot::identify(&abi)?,
    };
    let (known, nearest, mut changes) = match verdict {
        Verdict::Known(snapshot) => (Some(snapshot), snapshot, Vec::new()),
        Verdict::Unknown { nearest, changes } => (None, nearest, changes),
    };
    places.apply(&mut changes);
    let value = json!({
        "header": path.display().to_string(),
        "variant": variant.map(|variant| &variant.name),
        "file": abi.header().file_name(),
        "version": abi.version().map(|(major, minor)| [major, minor]),
        "revision": known.and_then(|snapshot| snapshot.edition.revision_name()),
        "edition": known.map(|snapshot| snapshot.edition.name()),
        "nearest": described(nearest),
        "changes": changes,
    });
    let edition = nearest.edition;
    let text = if known.is_some() && edition == Edition::BEFORE_R0 {
        format!(
            "{title}: {} from before r0 ({}, {}, TensorFlow 2.17); libraries of this SDK do not support its hosts\n",
            edition.header,
            edition.name(),
            edition.jaxlibs()
        )
    } else if known.is_some() {
        format!(
            "{title}: {} of revision {} ({}, {})\n",
            edition.header,
            edition.revision,
            edition.name(),
            edition.jaxlibs()
        )
    } else {
        let name = edition.name();
        let own = changes.iter().filter(|change| !change.follows).count();
        let own = match own {
            1 => "1 difference".to_owned(),
            own => format!("{own} differences"),
        };
        let text = report(&changes, &name, "this header");
        let what = match revision {
            Some(_) => format!("{title} is not {name} ({}): {own}", edition.jaxlibs()),
            None => format!(
                "{title} matches no header of jaxlib {} or later; the nearest is {name} ({}), with {own}",
                Revision::ALL[0].first_jaxlib(),
                edition.jaxlibs()
            ),
        };
        format!("{what}\n{text}")
    };
    let own = changes.iter().filter(|change| !change.follows);
    let found = own.map(|change| Found::change(change, &title, &edition.name(), fail_on));
    Ok(Checked::new(path, found.collect(), text, value))
}

/// Returns the edition of a snapshot as JSON.
pub(super) fn described(snapshot: &Snapshot) -> Value {
    json!({
        "edition": snapshot.edition.name(),
        "revision": snapshot.edition.revision_name(),
        "first_jaxlib": snapshot.edition.first_jaxlib,
        "last_jaxlib": snapshot.edition.last_jaxlib,
    })
}

/// Compares the layouts with the requested ABI. For a requested revision, every edition of its header is accepted.
fn against(wanted: &Wanted, abi: &Abi) -> anyhow::Result<Verdict> {
    let header = abi.header();
    let known = EDITIONS.into_iter().chain([Edition::BEFORE_R0]);
    let editions = known.filter(|edition| edition.header == header && wanted.takes(*edition));
    let mut nearest: Option<(&'static Snapshot, Vec<Change>)> = None;
    for edition in editions {
        let snapshot = snapshot::of_edition(edition)?;
        if snapshot.abi == *abi {
            return Ok(Verdict::Known(snapshot));
        }
        let changes = diff::changes(&snapshot.abi, abi);
        if nearest
            .as_ref()
            .is_none_or(|(_, least)| diff::distance(&changes) < diff::distance(least))
        {
            nearest = Some((snapshot, changes));
        }
    }
    let (nearest, changes) = nearest.with_context(|| format!("{wanted} has no {header}"))?;
    Ok(Verdict::Unknown { nearest, changes })
}
