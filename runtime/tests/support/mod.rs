//! Builds handler libraries for tests, and counts what cannot be built as skipped.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod handlers;
pub(crate) mod rules;

#[path = "../../../tests/skip/mod.rs"]
mod skip;
pub(crate) use skip::skip;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use xla_ffi_runtime::Revision;

/// A folder with upstream's headers and the revision that they are.
pub(crate) struct Headers {
    pub(crate) version: String,
    pub(crate) revision: Revision,
    pub(crate) include: PathBuf,
}

/// Every version under `XLA_FFI_JAXLIB_HEADERS`, oldest first; `None`, told, where it is not set.
pub(crate) fn headers(test: &str) -> Option<Vec<Headers>> {
    let Some(folder) = std::env::var_os("XLA_FFI_JAXLIB_HEADERS") else {
        skip(
            test,
            "XLA_FFI_JAXLIB_HEADERS is not set (`cargo xtask test` sets it)",
        );
        return None;
    };
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).expect("the folder of headers") {
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

/// The first version of each revision.
pub(crate) fn one_of_each(headers: Vec<Headers>) -> Vec<Headers> {
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

/// A compiler, or `None`, told.
fn compiler(cpp: bool, test: &str) -> Option<PathBuf> {
    let found = ["CXX", "CC"][usize::from(!cpp)];
    let named = std::env::var_os(found).map(PathBuf::from);
    let defaults: &[&str] = if cpp {
        &["g++", "clang++", "c++"]
    } else {
        &["gcc", "clang", "cc"]
    };
    let works = |program: &Path| {
        Command::new(program)
            .arg("--version")
            .output()
            .is_ok_and(|out| out.status.success())
    };
    let compiler = named
        .into_iter()
        .chain(defaults.iter().map(PathBuf::from))
        .find(|program| works(program));
    if compiler.is_none() {
        skip(
            test,
            if cpp {
                "no C++ compiler"
            } else {
                "no C compiler"
            },
        );
    }
    compiler
}

/// Compiles `source` into a shared library, once a test run and content.
pub(crate) fn build(test: &str, source: &Path, name: &str, flags: &[String]) -> Option<PathBuf> {
    // One at a time: tests that run side by side want the same libraries.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let cpp = source
        .extension()
        .is_some_and(|extension| extension == "cc");
    let compiler = compiler(cpp, test)?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).expect("the target folder");
    let out = folder.join(format!("lib{name}.so"));
    let newer = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    if newer(&out).is_some_and(|built| newer(source).is_some_and(|written| built > written)) {
        return Some(out);
    }
    let part = folder.join(format!("{name}.{}.part", std::process::id()));
    let done = Command::new(compiler)
        .args([
            if cpp { "-std=c++17" } else { "-std=c11" },
            "-O1",
            "-DNDEBUG",
            "-fPIC",
            "-shared",
            "-w",
        ])
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&part)
        .output()
        .expect("the compiler starts");
    assert!(
        done.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    std::fs::rename(&part, &out).expect("the target folder");
    Some(out)
}

/// A file of the tests' folder.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}
