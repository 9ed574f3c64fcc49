//! Reads manifests, the descriptions of handlers in libraries made with `library!`, without running the library.
//!
//! `docs/manifest.md` defines the format.

mod check;
mod format;
mod legacy;

pub use format::{Attribute, Batch, Gradient, Handler, Kind, Layout, Operand, Stages, State};
pub use legacy::{Shape, Target};

use crate::library;
pub(crate) use check::is_dtype;
use check::{check_handler, check_symbol};
use legacy::check_target;
use memchr::memmem;
use object::{BinaryFormat, Object, ObjectSection, ObjectSegment, ObjectSymbol};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
pub use xla_ffi_sys::manifest::{MAGIC, SECTION, SECTION_MACH_O, SECTION_PE, VERSION};
use xla_ffi_sys::manifest::{NoRecord, Record as RawRecord};

/// The symbol of the manifest in a `cdylib`. In other libraries, the symbol only ends with this name.
pub const SYMBOL: &str = "xla_ffi_manifest";

/// The error if a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not a readable object file.
    #[error("not a readable shared library: {0}")]
    Object(#[from] object::Error),
    /// The image base of a DLL is so high that addresses in it would overflow.
    #[error("its image base {0:#x} is too high")]
    ImageBase(u64),
    /// The file is a fat file whose parts cannot be read.
    #[error(transparent)]
    Parts(#[from] library::Error),
    /// The section for manifests is empty.
    #[error("section {SECTION} holds no manifest; expected the magic XLAFFIMF")]
    Empty,
    /// The bytes at the place of a manifest do not start with the magic of manifests.
    #[error("no manifest at byte {at} of {place}: expected the magic XLAFFIMF, found {found:?}")]
    Magic {
        /// The offset of the place in the section, in bytes.
        at: usize,
        /// The name of the section or symbol.
        place: String,
        /// The bytes that were found instead of the magic, as text.
        found: String,
    },
    /// The manifest's format version is newer than this tool.
    #[error(
        "manifest format {found} is newer than this tool, which reads formats 1 to {VERSION}: update the tool"
    )]
    Version {
        /// The format version that the manifest states.
        found: u32,
    },
    /// The manifest's stated length exceeds its section.
    #[error("manifest at byte {at}: expected {stated} bytes of payload, got {there}")]
    Length {
        /// The offset of the manifest in the section, in bytes.
        at: usize,
        /// The length that the manifest states, in bytes.
        stated: usize,
        /// The length that is available in the section, in bytes.
        there: usize,
    },
    /// The manifest's payload is not valid JSON of the format.
    #[error("manifest payload does not parse: {0}")]
    Json(#[from] serde_json::Error),
    /// The manifest parses, but its content is invalid.
    #[error("manifest of library {library:?}: {what}")]
    Content {
        /// The name of the library in the manifest.
        library: String,
        /// A description of the mistake in the manifest.
        what: String,
    },
}

/// The manifest of one library, merged from all manifest records in a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Manifest {
    /// The name of the library.
    pub library: String,
    /// The version of the SDK that created the manifest.
    pub sdk: String,
    /// The symbol of the library's function that registers its handlers; `None` for some libraries in plain C.
    pub register: Option<String>,
    /// The handlers of the library.
    pub handlers: Vec<Handler>,
    /// The library's targets of the original custom calls.
    pub legacy: Vec<Target>,
}

/// A manifest record in a file, which describes a library or a part of a library.
#[derive(Debug, Deserialize)]
struct Record {
    /// The name of the library. From format version 2 on, the name may be omitted if the file has only one library.
    #[serde(default)]
    library: Option<String>,
    #[serde(default)]
    sdk: Option<String>,
    #[serde(default)]
    register: Option<String>,
    handlers: Vec<Handler>,
    #[serde(default)]
    legacy: Vec<Target>,
}

/// Reads all manifests of a library. The list is empty if the library has no manifest.
///
/// For a fat file, reads the part for this machine, or the first part if no part is for this machine.
///
/// # Errors
/// [`Error`] if `file` is not a library, or if a section for manifests has other contents.
pub fn read(file: &[u8]) -> Result<Vec<Manifest>, Error> {
    use object::FileKind;
    let fat = FileKind::parse(file)
        .is_ok_and(|kind| matches!(kind, FileKind::MachOFat32 | FileKind::MachOFat64));
    if fat {
        let parts = library::parts(Path::new("the fat file"), file)?;
        return parts
            .first()
            .map_or(Ok(Vec::new()), |part| read(part.bytes));
    }
    let object = object::File::parse(file)?;
    let base = object.relative_address_base();
    // Readers of DLLs add up to two 32-bit numbers to the image base without checking for overflow.
    if base.checked_add(2 * u64::from(u32::MAX)).is_none() {
        return Err(Error::ImageBase(base));
    }
    let section = match object.format() {
        BinaryFormat::MachO => SECTION_MACH_O,
        BinaryFormat::Pe => SECTION_PE,
        _ => SECTION,
    };
    if let Some(section) = object.section_by_name(section) {
        return read_section(section.data()?, section.address());
    }
    let mut records = Vec::new();
    let mut seen = BTreeSet::new();
    for symbol in object.dynamic_symbols().chain(object.symbols()) {
        let Ok(name) = symbol.name() else { continue };
        let is_ours = name == SYMBOL
            || name
                .strip_suffix(SYMBOL)
                .is_some_and(|rest| rest.ends_with("__"));
        // Several symbols may have the same address, such as an alias and its target, or one symbol in both symbol
        // tables.
        if is_ours && symbol.is_definition() && seen.insert(symbol.address()) {
            let bytes = object
                .segments()
                .find_map(|segment| {
                    let start = symbol.address().checked_sub(segment.address())?;
                    let data = segment.data().ok()?;
                    data.get(usize::try_from(start).ok()?..)
                })
                .unwrap_or_default();
            records.push(read_one(bytes, 0, name)?.0);
        }
    }
    // Loaders do not need section headers, so a file may lack them; then the whole file is searched for manifests.
    // Other occurrences of the magic, such as in the code of a manifest reader, do not parse and are skipped.
    if records.is_empty() && object.sections().next().is_none() {
        let places = memmem::find_iter(file, &MAGIC).filter(|at| at % 16 == 0);
        records.extend(places.filter_map(|at| Some(read_one(file, at, SECTION).ok()?.0)));
    }
    join(records)
}

/// Reads the manifests in the bytes of a section, which starts at the address `address`.
///
/// # Errors
/// [`Error`] if the section has contents other than manifests.
pub fn read_section(bytes: &[u8], address: u64) -> Result<Vec<Manifest>, Error> {
    let mut records = Vec::new();
    let mut at = 0;
    // Every manifest starts at an address that is a multiple of 16, and the bytes between manifests are zero.
    let skew = (address % 16) as usize;
    while at < bytes.len() {
        if bytes[at] == 0 {
            at += 1;
        } else if (at + skew) % 16 == 0 {
            let (record, end) = read_one(bytes, at, &format!("section {SECTION}"))?;
            records.push(record);
            at = end;
        } else {
            return Err(magic_error(bytes, at, &format!("section {SECTION}")));
        }
    }
    if records.is_empty() {
        return Err(Error::Empty);
    }
    join(records)
}

/// Merges the manifest records of a file by library, in the order of the file.
fn join(records: Vec<Record>) -> Result<Vec<Manifest>, Error> {
    let mut manifests: Vec<Manifest> = Vec::new();
    for name in records.iter().filter_map(|record| record.library.as_ref()) {
        if manifests.iter().all(|known| known.library != *name) {
            manifests.push(Manifest {
                library: name.clone(),
                sdk: String::new(),
                register: None,
                handlers: Vec::new(),
                legacy: Vec::new(),
            });
        }
    }
    for record in records {
        let count = manifests.len();
        let manifest = match &record.library {
            Some(name) => manifests.iter_mut().find(|known| known.library == *name),
            None if count == 1 => manifests.first_mut(),
            None => None,
        };
        let Some(manifest) = manifest else {
            return Err(Error::Content {
                library: String::new(),
                what: format!(
                    "a record names no library, and the other records of the file name {count}"
                ),
            });
        };
        manifest.add(record)?;
    }
    Ok(manifests)
}

impl Manifest {
    /// The name of an exported function that lists a library's targets of the original custom calls. The list includes
    /// targets that are registered at run time and are not in the manifest.
    pub const LEGACY_LIST: &str = "xla_ffi_legacy_targets";

    fn add(&mut self, record: Record) -> Result<(), Error> {
        let fail = |library: &str, what: String| Error::Content {
            library: library.to_owned(),
            what,
        };
        for handler in record.handlers {
            if self.handlers.iter().any(|known| known.name == handler.name) {
                let what = format!("handler {:?} is listed twice", handler.name);
                return Err(fail(&self.library, what));
            }
            self.handlers.push(handler);
        }
        for target in record.legacy {
            if self.legacy.iter().any(|known| known.name == target.name) {
                let what = format!("legacy target {:?} is listed twice", target.name);
                return Err(fail(&self.library, what));
            }
            self.legacy.push(target);
        }
        match (&self.register, record.register) {
            (Some(one), Some(other)) if *one != other => {
                let what =
                    format!("its records name two registration functions, {one} and {other}");
                return Err(fail(&self.library, what));
            }
            (None, register) => self.register = register,
            _ => {}
        }
        if let Some(sdk) = record.sdk {
            self.sdk = sdk;
        }
        Ok(())
    }
}

fn magic_error(bytes: &[u8], at: usize, place: &str) -> Error {
    let end = bytes.len().min(at + MAGIC.len());
    Error::Magic {
        at,
        place: place.to_owned(),
        found: String::from_utf8_lossy(&bytes[at.min(end)..end]).into_owned(),
    }
}

/// Reads the manifest record at the offset `at`. Returns the record and the offset of the first byte after the record.
fn read_one(bytes: &[u8], at: usize, place: &str) -> Result<(Record, usize), Error> {
    let raw = RawRecord::read(&bytes[at..]).map_err(|why| match why {
        NoRecord::Magic => magic_error(bytes, at, place),
        NoRecord::Version(found) => Error::Version { found },
        NoRecord::Length { stated, there } => Error::Length { at, stated, there },
    })?;
    let record = read_record(raw.payload)?;
    if raw.version == 1 && record.library.is_none() {
        return Err(Error::Content {
            library: String::new(),
            what: "a record of version 1 names its library".to_owned(),
        });
    }
    Ok((record, bytes.len() - raw.rest.len()))
}

/// Parses the JSON payload of a single manifest record.
///
/// # Errors
/// [`Error::Json`] if the payload does not parse, [`Error::Content`] if its content is invalid.
///
/// ```
/// use xla_ffi_doctor::manifest;
///
/// let text = br#"{"library": "mine", "sdk": "0.1.0", "handlers": [{
///     "name": "f", "platforms": ["cpu"], "stages": {"execute": "mine__f"},
///     "args": [], "rets": [], "attrs": [], "floor": "r0"}]}"#;
/// let mine = manifest::parse(text)?;
/// assert_eq!(mine.handlers[0].stages.iter().next(), Some(("execute", "mine__f")));
/// assert!(manifest::parse(b"{}").is_err());
/// # Ok::<(), manifest::Error>(())
/// ```
pub fn parse(payload: &[u8]) -> Result<Manifest, Error> {
    let joined = join(vec![read_record(payload)?])?;
    joined.into_iter().next().ok_or(Error::Empty)
}

/// Removes keys with the value `null`, because such keys mean the same as omitted keys.
fn leave_out_nulls(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(leave_out_nulls),
        Value::Object(keys) => {
            keys.retain(|_, value| !value.is_null());
            keys.values_mut().for_each(leave_out_nulls);
        }
        _ => {}
    }
}

fn read_record(payload: &[u8]) -> Result<Record, Error> {
    let mut value: Value = serde_json::from_slice(payload)?;
    leave_out_nulls(&mut value);
    let library = value["library"].as_str().unwrap_or_default().to_owned();
    let fail = |what: String| Error::Content {
        library: library.clone(),
        what,
    };
    for handler in value["handlers"].as_array().into_iter().flatten() {
        let missing = ["args", "rets", "attrs"]
            .into_iter()
            .find(|key| handler[key].is_null() && handler["described"] != false);
        if let Some(key) = missing {
            let name = &handler["name"];
            return Err(fail(format!(
                "handler {name} has no \"{key}\"; in C, add XFFI_{}()",
                key.to_uppercase()
            )));
        }
        let outside = ["vjp", "forward", "jvp", "transpose", "linear", "residuals"]
            .into_iter()
            .find(|key| !handler[key].is_null());
        if let Some(key) = outside {
            let name = &handler["name"];
            return Err(fail(format!(
                "handler {name} has \"{key}\" outside of its gradient; in C, write it in XFFI_GRADIENT(…)"
            )));
        }
        let mut stages = handler["stages"].as_object().into_iter().flatten();
        if let Some((stage, _)) =
            stages.find(|(stage, _)| !Stages::names().any(|name| name == *stage))
        {
            let name = &handler["name"];
            let known: Vec<_> = Stages::names().collect();
            return Err(fail(format!(
                "handler {name} has the unknown stage {stage:?}; expected one of {}",
                known.join(", ")
            )));
        }
    }
    let record = Record::deserialize(value)?;
    if let Some(register) = &record.register {
        check_symbol(register).map_err(|what| fail(format!("\"register\" {what}")))?;
    }
    for handler in &record.handlers {
        check_handler(handler)
            .map_err(|what| fail(format!("handler {:?}: {what}", handler.name)))?;
    }
    for target in &record.legacy {
        check_target(target)
            .map_err(|what| fail(format!("legacy target {:?}: {what}", target.name)))?;
    }
    Ok(record)
}

#[cfg(test)]
mod tests;
