//! What a library's file says of its handlers: C and C++ describe them (`XFFI_LIBRARY`, `XLA_FFI_LIBRARY`) and export no
//! function that registers them all.

use object::{BinaryFormat, Object, ObjectSection};
use serde_json::Value;
use std::path::Path;
use xla_ffi_runtime::{Code, Error, Result, Stage, canonical_platform};
use xla_ffi_sys::manifest::{Record, SECTION, SECTION_MACH_O, SECTION_PE};

/// A handler, as the manifest has it.
pub(super) struct Described {
    pub(super) name: String,
    pub(super) stages: Vec<(Stage, String)>,
    platforms: Vec<String>,
}

impl Described {
    /// Whether it is one of a platform.
    pub(super) fn is_for(&self, platform: &str) -> bool {
        let is = |own: &String| canonical_platform(own) == canonical_platform(platform);
        self.platforms.iter().any(is)
    }
}

/// The handlers that the records of a file describe; none where it has no record.
pub(super) fn read(path: &Path) -> Result<Vec<Described>> {
    let fail = |code, why: String| Error::new(code, format!("{}: {why}", path.display()));
    let file = std::fs::read(path).map_err(|error| fail(Code::NotFound, error.to_string()))?;
    let wrong = |why: &str| fail(Code::InvalidArgument, format!("its manifest {why}"));
    let object = object::File::parse(&*file)
        .map_err(|error| fail(Code::InvalidArgument, error.to_string()))?;
    let section = object.section_by_name(match object.format() {
        BinaryFormat::MachO => SECTION_MACH_O,
        BinaryFormat::Pe => SECTION_PE,
        _ => SECTION,
    });
    let Some(section) = section else {
        return Ok(Vec::new());
    };
    let mut rest = section.data().map_err(|error| wrong(&error.to_string()))?;
    let mut handlers = Vec::new();
    // Between the records lies what aligns them.
    while let Some(start) = rest.iter().position(|byte| *byte != 0) {
        let record = Record::read(&rest[start..]).map_err(|_| wrong("cannot be read"))?;
        let told: Value =
            serde_json::from_slice(record.payload).map_err(|error| wrong(&error.to_string()))?;
        for handler in told["handlers"].as_array().into_iter().flatten() {
            let one = described(handler);
            handlers.push(one.ok_or_else(|| wrong(&format!("has no handler in {handler}")))?);
        }
        rest = record.rest;
    }
    Ok(handlers)
}

/// A handler with a name, platforms, and the symbol of each stage.
fn described(handler: &Value) -> Option<Described> {
    let platforms = handler["platforms"].as_array()?.iter();
    let stages = handler["stages"].as_object()?.iter();
    let stages = stages.map(|(stage, symbol)| {
        let symbol = symbol.as_str()?.to_owned();
        Some((Stage::from_name(stage)?, symbol))
    });
    Some(Described {
        name: handler["name"].as_str()?.to_owned(),
        stages: stages.collect::<Option<_>>()?,
        platforms: platforms
            .map(|name| name.as_str().map(str::to_owned))
            .collect::<Option<_>>()?,
    })
}
