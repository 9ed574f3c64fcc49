//! Snapshots of headers, which are committed files, one per edition. Tests compare the snapshots with jaxlib's headers
//! and with the Rust definitions of this project.

use crate::declared::{EDITIONS, Edition};
use crate::diff::{self, Change};
use crate::model::{Abi, Header, Struct};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// The contents of a snapshot file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// The name of the edition.
    name: String,
    /// The header file of which the edition is a version.
    header: Header,
    /// The first jaxlib that shipped the header.
    first_jaxlib: String,
    /// The last jaxlib that shipped the header; null if the newest jaxlib ships it.
    last_jaxlib: Option<String>,
    /// The layouts of the header.
    abi: Abi,
}

/// A known header: an edition and its layouts.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The edition of the header.
    pub edition: Edition,
    /// The layouts of the header.
    pub abi: Abi,
}

/// The error if a snapshot file cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("snapshot {name}: {what}")]
pub struct Broken {
    /// The name of the snapshot.
    pub name: String,
    /// A description of the mistake in the file.
    pub what: String,
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../snapshots/", $name, ".json")))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "before-r0",
    "r0",
    "r1",
    "r2-0.4.34",
    "r2-0.4.35",
    "r3-0.4.38",
    "r3-0.5.0",
    "r4",
    "r5",
    "r6",
    "r7-0.8.1",
    "r7-0.8.2",
    "r8",
    "r9",
    "r10",
    "record-0.1",
    "record-0.2",
    "collectives-0.1",
    "collectives-0.2",
    "collectives-0.3",
];

/// Returns all snapshots in the order of [`EDITIONS`].
///
/// # Errors
/// [`Broken`] if a snapshot file does not parse, or if an edition has no file.
pub fn all() -> Result<&'static [Snapshot], Broken> {
    static ALL: OnceLock<Result<Vec<Snapshot>, Broken>> = OnceLock::new();
    ALL.get_or_init(|| EDITIONS.into_iter().map(load).collect())
        .as_deref()
        .map_err(Clone::clone)
}

/// Returns true if a header with a snapshot declares `name`.
pub(crate) fn is_name(name: &str) -> bool {
    static NAMES: OnceLock<BTreeSet<String>> = OnceLock::new();
    let names = || {
        all()
            .into_iter()
            .flatten()
            .flat_map(|known| known.abi.every_name())
    };
    let names = NAMES.get_or_init(|| names().collect());
    names.contains(name)
}

/// Returns the snapshot of [`Edition::BEFORE_R0`].
fn before_r0() -> Result<&'static Snapshot, Broken> {
    static ONE: OnceLock<Result<Snapshot, Broken>> = OnceLock::new();
    ONE.get_or_init(|| load(Edition::BEFORE_R0))
        .as_ref()
        .map_err(Clone::clone)
}

fn load(edition: Edition) -> Result<Snapshot, Broken> {
    let name = edition.name();
    let broken = |what: String| Broken {
        name: name.clone(),
        what,
    };
    let (_, text) = FILES
        .iter()
        .find(|(file, _)| *file == name)
        .ok_or_else(|| broken("the file is missing in abi/snapshots".to_owned()))?;
    let document: Document = serde_json::from_str(text).map_err(|e| broken(e.to_string()))?;
    let is_right = document.name == name
        && document.header == edition.header
        && document.first_jaxlib == edition.first_jaxlib
        && document.last_jaxlib.as_deref() == edition.last_jaxlib;
    if !is_right {
        return Err(broken(
            "its name, header or jaxlib versions differ from the table of editions".to_owned(),
        ));
    }
    Ok(Snapshot {
        edition,
        abi: document.abi,
    })
}

/// Parses the text of a snapshot file.
///
/// # Errors
/// [`Broken`] if the file does not parse or has layouts that no header can declare.
pub fn parse(name: &str, text: &str) -> Result<Abi, Broken> {
    let broken = |what: String| Broken {
        name: name.to_owned(),
        what,
    };
    let document: Document =
        serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
    let mut abi = document.abi;
    for (name, layout) in &abi.structs {
        check_layout(layout).map_err(|what| broken(format!("{name} {what}")))?;
    }
    let fields = abi.structs.values().flat_map(|layout| &layout.fields);
    let types = abi.functions.values().chain(abi.prototypes.values());
    let types = types.chain(abi.aliases.values());
    // Long types are refused, because functions on types are recursive and could overflow the stack.
    if let Some(ty) = types
        .chain(fields.map(|field| &field.ty))
        .find(|ty| ty.len() > 2000)
    {
        return Err(broken(format!("a type has {} letters", ty.len())));
    }
    abi.settle();
    Ok(abi)
}

/// Returns an error if no struct can have the size, alignment and fields of `layout`.
fn check_layout(layout: &Struct) -> Result<(), String> {
    let Struct { size, align, .. } = layout;
    // No object can be larger than the largest difference between two addresses.
    if i64::try_from(*size).is_err() || !align.is_power_of_two() {
        return Err(format!("has {size} bytes, aligned to {align}"));
    }
    match layout.fields.iter().find(|field| field.end() > *size) {
        Some(field) => Err(format!("ends before its field {} does", field.name)),
        None => Ok(()),
    }
}

/// Returns the text of a snapshot file for these layouts.
#[must_use]
pub fn render(
    name: &str,
    header: Header,
    first_jaxlib: &str,
    last_jaxlib: Option<&str>,
    abi: &Abi,
) -> String {
    let document = Document {
        name: name.to_owned(),
        header,
        first_jaxlib: first_jaxlib.to_owned(),
        last_jaxlib: last_jaxlib.map(str::to_owned),
        abi: abi.clone(),
    };
    let value = serde_json::to_value(document).unwrap_or(Value::Null);
    let mut text = String::new();
    write(&value, 0, &mut text);
    text.push('\n');
    text
}

/// Writes JSON with one field, enumerator or name per line. Short values are written on one line.
fn write(value: &Value, depth: usize, out: &mut String) {
    let compact = value.to_string();
    let nested = match value {
        Value::Object(map) => map.values().any(|v| v.is_object() || v.is_array()),
        Value::Array(items) => items.iter().any(|v| v.is_object() || v.is_array()),
        _ => false,
    };
    let is_leaf = !value.is_object() && !value.is_array();
    if is_leaf || compact == "{}" || compact == "[]" || (!nested && depth >= 4) {
        out.push_str(&compact);
        return;
    }
    let indent = "  ".repeat(depth + 1);
    let (open, close) = if value.is_object() {
        ('{', '}')
    } else {
        ('[', ']')
    };
    out.push(open);
    let items: Vec<(Option<&String>, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (Some(key), value)).collect(),
        Value::Array(items) => items.iter().map(|value| (None, value)).collect(),
        _ => Vec::new(),
    };
    for (index, (key, item)) in items.iter().enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.push_str(&indent);
        if let Some(key) = key {
            out.push_str(&Value::String((*key).clone()).to_string());
            out.push_str(": ");
        }
        write(item, depth + 1, out);
    }
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
    out.push(close);
}

/// Returns the snapshot of `edition`.
///
/// # Errors
/// [`Broken`] if a committed snapshot cannot be used.
///
/// ```
/// use xla_ffi_abi::declared::Edition;
/// use xla_ffi_abi::snapshot;
///
/// let newest = snapshot::all()?.iter().find(|one| one.edition.name() == "r10").unwrap();
/// assert_eq!(snapshot::of_edition(Edition::find("r10").unwrap())?.abi, newest.abi);
/// # Ok::<(), snapshot::Broken>(())
/// ```
pub fn of_edition(edition: Edition) -> Result<&'static Snapshot, Broken> {
    if edition == Edition::BEFORE_R0 {
        return before_r0();
    }
    all()?
        .iter()
        .find(|snapshot| snapshot.edition == edition)
        .ok_or_else(|| Broken {
            name: edition.name(),
            what: "it is not among the snapshots".to_owned(),
        })
}

/// The result of comparing a header with all snapshots.
#[derive(Debug)]
pub enum Verdict {
    /// The header is equal to this snapshot.
    Known(&'static Snapshot),
    /// No snapshot is equal to the header.
    Unknown {
        /// The snapshot with the fewest differences.
        nearest: &'static Snapshot,
        /// The changes from the nearest snapshot to the header.
        changes: Vec<Change>,
    },
}

/// Finds the snapshot that is equal to `abi`. If there is none, finds the nearest snapshot.
///
/// # Errors
/// [`Broken`] if a committed snapshot cannot be used.
///
/// ```
/// use xla_ffi_abi::declared::Edition;
/// use xla_ffi_abi::snapshot::{self, Verdict};
///
/// let edition = Edition::find("0.4.31").unwrap();
/// let mut abi = edition.declared();
/// assert!(matches!(snapshot::identify(&abi)?, Verdict::Known(known) if known.edition == edition));
///
/// // A header that nobody has shipped: the nearest one, and how it differs.
/// abi.structs.get_mut("XLA_FFI_Buffer").unwrap().size += 8;
/// let Verdict::Unknown { nearest, changes } = snapshot::identify(&abi)? else { panic!() };
/// assert_eq!((nearest.edition, changes[0].path()), (edition, "XLA_FFI_Buffer".to_owned()));
/// # Ok::<(), snapshot::Broken>(())
/// ```
pub fn identify(abi: &Abi) -> Result<Verdict, Broken> {
    let header = abi.header();
    let before = before_r0()?;
    if before.abi == *abi {
        return Ok(Verdict::Known(before));
    }
    let mut best: Option<(usize, &'static Snapshot, Vec<Change>)> = None;
    // If two snapshots are equally near, the newer snapshot is chosen, because it is the likelier origin of the header.
    for snapshot in all()?.iter().rev() {
        if snapshot.edition.header != header {
            continue;
        }
        if snapshot.abi == *abi {
            return Ok(Verdict::Known(snapshot));
        }
        let changes = diff::changes(&snapshot.abi, abi);
        let distance = diff::distance(&changes);
        if best.as_ref().is_none_or(|(least, ..)| distance < *least) {
            best = Some((distance, snapshot, changes));
        }
    }
    match best {
        Some((_, nearest, changes)) => Ok(Verdict::Unknown { nearest, changes }),
        None => Err(Broken {
            name: header.file_name().to_owned(),
            what: "no known jaxlib ships it; `xla-ffi abi diff` compares two of its versions"
                .to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_snapshot_is_what_we_declare() {
        for snapshot in all().unwrap() {
            let declared = snapshot.edition.declared();
            let lines = diff::differences(&snapshot.abi, &declared);
            assert!(
                lines.is_empty(),
                "{}:\n{}",
                snapshot.edition.name(),
                lines.join("\n")
            );
            assert_eq!(snapshot.abi, declared);
        }
    }

    #[test]
    fn snapshots_are_distinct() {
        let all = all().unwrap();
        assert_eq!(all.len(), EDITIONS.len());
        for snapshot in all {
            assert!(matches!(
                identify(&snapshot.abi),
                Ok(Verdict::Known(found)) if found.edition == snapshot.edition
            ));
        }
    }

    #[test]
    fn files_are_written_as_they_lie_there() {
        for snapshot in all().unwrap().iter().chain([before_r0().unwrap()]) {
            let name = snapshot.edition.name();
            let text = render(
                &name,
                snapshot.edition.header,
                snapshot.edition.first_jaxlib,
                snapshot.edition.last_jaxlib,
                &snapshot.abi,
            );
            let (_, file) = FILES.iter().find(|(file, _)| *file == name).unwrap();
            assert!(
                text == *file,
                "{name}.json is not in the form that import writes"
            );
        }
    }
}
