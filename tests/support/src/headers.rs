//! Upstream's headers, extracted from jaxlib wheels. The headers are never part of the checkout.

use crate::skip;
use std::path::{Path, PathBuf};
use xla_ffi_sys::Revision;

/// A folder with upstream's headers, and their revision.
#[derive(Debug)]
pub struct Headers {
    /// The jaxlib version of the headers.
    pub version: String,
    /// The revision of the headers.
    pub revision: Revision,
    /// The folder for `-I`.
    pub include: PathBuf,
}

/// Returns the folder with the headers of all versions, or `None` if the task runner did not set it.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("XLA_FFI_JAXLIB_HEADERS").map(PathBuf::from)
}

/// Returns the folder with the headers of all versions, as [`folder`] does, and reports a skip if it is not set.
#[must_use]
pub fn folder_or_skip(test: &str) -> Option<PathBuf> {
    let found = folder();
    if found.is_none() {
        skip(
            test,
            "XLA_FFI_JAXLIB_HEADERS is not set (`cargo xtask test` sets it)",
        );
    }
    found
}

/// Returns the folder `xla/ffi/api` of a jaxlib version.
#[must_use]
pub fn api_folder(headers: &Path, version: &str) -> PathBuf {
    headers.join(version).join("xla/ffi/api")
}

/// Returns the headers of every version in the folder, oldest first. Reports a skip and returns `None` if the folder is
/// not set.
#[must_use]
pub fn all(test: &str) -> Option<Vec<Headers>> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder_or_skip(test)?).expect("the folder of headers") {
        let entry = entry.expect("its entries");
        let version = entry.file_name().into_string().expect("a version");
        let include = entry.path();
        if include.join("xla/ffi/api/ffi.h").exists()
            && let Some(revision) = revision_of(&version)
        {
            found.push(Headers {
                version,
                revision,
                include,
            });
        }
    }
    found.sort_by_key(|headers| numbers(&headers.version));
    assert!(!found.is_empty(), "XLA_FFI_JAXLIB_HEADERS has no headers");
    Some(found)
}

/// Returns the include folder of jaxlib 0.12.0. Reports a skip and returns `None` if the folder is missing.
#[must_use]
pub fn newest(test: &str) -> Option<PathBuf> {
    let include = folder_or_skip(test)?.join("0.12.0");
    if !include.join("xla/ffi/api/ffi.h").exists() {
        skip(test, "XLA_FFI_JAXLIB_HEADERS has no 0.12.0");
        return None;
    }
    Some(include)
}

/// Returns the headers of the first version of each revision.
#[must_use]
pub fn one_of_each(headers: Vec<Headers>) -> Vec<Headers> {
    let mut kept: Vec<Headers> = vec![];
    for headers in headers {
        if kept
            .last()
            .is_none_or(|last| last.revision != headers.revision)
        {
            kept.push(headers);
        }
    }
    kept
}

fn numbers(version: &str) -> Vec<u32> {
    version
        .split('.')
        .map(|part| part.parse().unwrap_or(0))
        .collect()
}

fn revision_of(version: &str) -> Option<Revision> {
    Revision::ALL
        .into_iter()
        .rev()
        .find(|revision| numbers(revision.first_jaxlib()) <= numbers(version))
}
