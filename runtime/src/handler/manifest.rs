//! Registers the handlers in a library's manifest.

use super::Library;
use crate::frame::Stage;
use crate::host::{Bundle, Runtime, canonical_platform};
use object::{BinaryFormat, Object, ObjectSection};
use serde_json::Value;
use std::path::Path;
use xla_ffi_sys::manifest::{Record, SECTION, SECTION_MACH_O, SECTION_PE};
use xla_ffi_sys::{Error, ErrorCode, Result};

impl Runtime {
    /// Registers the handlers in the library's manifest, by name and for each of their platforms. If a handler is
    /// refused, the remaining handlers are still registered. `library!` in Rust, `XFFI_LIBRARY` in C and
    /// `XLA_FFI_LIBRARY` in C++ write a manifest. For libraries without a manifest, use [`Runtime::register`].
    ///
    /// # Errors
    /// `NOT_FOUND` if the library has no manifest. If handlers are refused, the first error, with one line per
    /// refused handler.
    pub fn register_library(&self, library: &Library) -> Result<()> {
        library.register_described(None, |name, platform, bundle| {
            self.register(name, platform, bundle)
        })
    }
}

impl Library {
    /// Passes each handler of the manifest to `register`, for the platform `only` or for all of the handler's
    /// platforms.
    ///
    /// # Errors
    /// The errors of [`Runtime::register_library`].
    #[doc(hidden)]
    pub fn register_described(
        &self,
        platform: Option<&str>,
        register: impl Fn(&str, &str, Bundle) -> Result<()>,
    ) -> Result<()> {
        let path = self.path().display();
        let none = |why: &str| Err(Error::not_found(format!("{path} {why}")));
        let handlers = read_described(self.path())?;
        if handlers.is_empty() {
            return none(
                "does not describe its handlers: C needs XFFI_LIBRARY(…), C++ XLA_FFI_LIBRARY(…), Rust `library!`; \
                 otherwise register its functions one by one",
            );
        }
        let (mut tried, mut refused) = (0, Vec::new());
        for handler in &handlers {
            for platform in handler.platforms(platform) {
                tried += 1;
                let stages = handler.stages.iter();
                let stages: Vec<_> = stages.map(|(stage, name)| (*stage, &name[..])).collect();
                let bundle = self.bundle(&stages);
                let outcome = bundle.and_then(|bundle| register(&handler.name, platform, bundle));
                refused.extend(outcome.err());
            }
        }
        match refused.first() {
            _ if tried == 0 => none(&format!(
                "describes no handler for platform '{}'",
                platform.unwrap_or_default()
            )),
            None => Ok(()),
            Some(first) => {
                let lines: Vec<_> = refused.iter().map(Error::message).collect();
                let count = refused.len();
                let summary = format!("{count} of {tried} handlers not registered");
                let text = format!("{path}: {summary}\n{}", lines.join("\n"));
                Err(Error::new(first.code(), text))
            }
        }
    }
}

/// A handler as described in a manifest.
struct Described {
    name: String,
    stages: Vec<(Stage, String)>,
    platforms: Vec<String>,
}

impl Described {
    /// Returns the platforms for which the handler is registered: `only`, or all of the handler's platforms.
    fn platforms(&self, only: Option<&str>) -> impl Iterator<Item = &str> {
        let only = only.map(canonical_platform);
        let wanted = move |own: &&str| {
            only.as_ref()
                .is_none_or(|only| canonical_platform(own) == *only)
        };
        self.platforms.iter().map(String::as_str).filter(wanted)
    }
}

/// Returns the handlers in the manifests of a file; an empty list if the file has no manifest.
fn read_described(path: &Path) -> Result<Vec<Described>> {
    let fail = |code, why: String| Error::new(code, format!("{}: {why}", path.display()));
    let file = std::fs::read(path).map_err(|error| fail(ErrorCode::NotFound, error.to_string()))?;
    let wrong = |why: &str| fail(ErrorCode::InvalidArgument, format!("its manifest {why}"));
    let object = object::File::parse(&*file)
        .map_err(|error| fail(ErrorCode::InvalidArgument, error.to_string()))?;
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
    // Zero bytes separate the manifests.
    while let Some(start) = rest.iter().position(|byte| *byte != 0) {
        let record = Record::read(&rest[start..]).map_err(|_| wrong("cannot be read"))?;
        let manifest: Value =
            serde_json::from_slice(record.payload).map_err(|error| wrong(&error.to_string()))?;
        for handler in manifest["handlers"].as_array().into_iter().flatten() {
            let one = described(handler);
            handlers.push(one.ok_or_else(|| wrong(&format!("has no handler in {handler}")))?);
        }
        rest = record.rest;
    }
    Ok(handlers)
}

/// Returns the handler that a JSON value of a manifest describes.
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
