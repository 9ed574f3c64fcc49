//! Tests the C++ headers: how they compile, which mistakes they reject, and whether handlers work as with XLA's own
//! headers.

mod cases;
mod compilation;
mod compile_errors;
mod exports;
mod install;
mod other_headers;
mod programs;
mod state;
mod suite;
mod suite_in_jax;

use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_testing::once;

/// Returns the folder of the handler sources.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cpp")
}

/// Returns the handler sources, sorted by name.
fn sources() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("tests/cpp")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|is| is == "cc"))
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// The headers that a library is built with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Headers {
    /// This project's headers.
    Ours,
    /// XLA's own headers, in the folder of this path.
    Upstream(PathBuf),
}

impl Headers {
    /// Returns the include folder of the headers, for `-I`.
    fn folder(&self) -> &Path {
        match self {
            Self::Ours => Path::new(env!("SDK_INCLUDE_DIR")),
            Self::Upstream(path) => path,
        }
    }

    /// Returns the compiler flags that select the headers.
    fn flags(&self) -> Vec<String> {
        match self {
            Self::Ours => vec![format!("-I{}", env!("SDK_INCLUDE_DIR"))],
            Self::Upstream(path) => vec!["-isystem".to_owned(), path.display().to_string()],
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Upstream(_) => "upstream",
        }
    }
}

/// Builds a source into a shared library.
fn build(compiler: &str, source: &Path, headers: &Headers, flags: &[&str]) -> PathBuf {
    let stem = source.file_stem().expect("a file").to_string_lossy();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("cpp")
        .join(format!("{compiler}-{}", headers.name()));
    std::fs::create_dir_all(&out).expect("the target folder");
    let library = out.join(format!("lib{stem}{}.so", flags.concat()));
    let mut command = Command::new(compiler);
    command
        .args([
            "-std=c++17",
            "-O0",
            "-g0",
            "-shared",
            "-fPIC",
            "-w",
            "-pthread",
        ])
        .args(flags)
        .args(headers.flags())
        .arg(source);
    let inputs = [source, &folder(), headers.folder()];
    once::compile(&mut command, &inputs, Some(&library)).unwrap_or_else(|error| panic!("{error}"));
    library
}
