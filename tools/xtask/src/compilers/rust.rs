//! Rust compilers: the installed compiler, and other versions that are unpacked in a folder.

use super::line;
use crate::cargo::{cargo, metadata};
use crate::python;
use crate::tally::{self, Outcome, Tally};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The tested Rust versions; the oldest is the `rust-version` of the published crates.
pub(super) const RUSTS: [(&str, &str); 3] = [
    ("rustc 1.85", "1.85"),
    ("rustc 1.95", "1.95"),
    ("rustc 1.96", "1.96"),
];

/// A Rust compiler.
pub(super) struct Rust {
    /// The path of the compiler; `None` for the installed compiler.
    program: Option<PathBuf>,
    pub(super) version: String,
}

/// Returns the installed Rust compiler, and the compilers unpacked in `XLA_FFI_RUSTS` or `target/rust`.
pub(super) fn rusts(root: &Path) -> Result<Vec<Rust>> {
    let version = |program: &Path| {
        let said = python::output(Command::new(program).arg("--version"), "rustc")?;
        let version = said.split_whitespace().nth(1);
        version
            .map(str::to_owned)
            .context("rustc prints no version")
    };
    let mut found = vec![Rust {
        program: None,
        version: version(Path::new("rustc"))?,
    }];
    let folder = std::env::var_os("XLA_FFI_RUSTS").filter(|folder| !folder.is_empty());
    let folder = folder.map_or_else(|| root.join("target/rust"), PathBuf::from);
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let program = entry?.path().join("rustc");
        if program.is_file() {
            found.push(Rust {
                version: version(&program)?,
                program: Some(program),
            });
        }
    }
    Ok(found)
}

impl Rust {
    fn cargo(&self, root: &Path, folder: &Path) -> Command {
        let mut command = cargo(root);
        if let Some(program) = &self.program {
            command
                .env("RUSTC", program)
                .env("CARGO_TARGET_DIR", folder.join("build"));
        }
        command
    }

    /// Checks the published crates, and tests a new project. Returns the compiler's row of the table.
    pub(super) fn check(&self, root: &Path, row: &str, tally: &Tally) -> String {
        let folder = &root.join("target/compilers").join(row.replace(' ', "_"));
        let passed = Mutex::new(vec![]);
        let note = |what| {
            passed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(what)
        };
        tally.work(&format!("{row}, crates"), |log| {
            let mut command = self.cargo(root, folder);
            command.args(["check", "--quiet", "--no-default-features"]);
            for package in metadata(root)?.packages {
                if package.publish.is_some() {
                    continue;
                }
                command.args(["--package", &package.name]);
                // The feature `cuda` is not checked, because cudarc requires Rust 1.88.
                let is_checked = |name: &&String| !["default", "cuda"].contains(&name.as_str());
                let features = package.features.keys().filter(is_checked);
                command.args(features.flat_map(|name| {
                    ["--features".to_owned(), format!("{}/{name}", package.name)]
                }));
            }
            let done = tally::run("cargo check", &mut command, log)?;
            note("crates checked");
            Ok(done)
        });
        tally.work(&format!("{row}, project"), |log| {
            self.test_project(root, folder, log)?;
            note("new project tested");
            Ok(vec![])
        });
        let passed = passed.into_inner().unwrap_or_else(PoisonError::into_inner);
        line(row, &self.version, "Rust 2024", &passed.join(", "))
    }

    /// Creates a project with `xla-ffi new`, as users do, and runs the project's tests.
    fn test_project(&self, root: &Path, folder: &Path, log: &mut tally::Log) -> Outcome {
        let project = folder.join("compiled");
        if project.exists() {
            fs::remove_dir_all(&project)?;
        }
        fs::create_dir_all(folder)?;
        let mut new = Command::new(root.join("target/debug/xla-ffi"));
        new.arg("new").arg(&project).arg("--sdk").arg(root);
        python::output(&mut new, "xla-ffi new")?;
        let mut test = self.cargo(root, folder);
        // Documentation tests are omitted, because they would require a rustdoc of the same version.
        test.args(["test", "--quiet", "--tests"])
            .current_dir(&project);
        if self.program.is_none() {
            test.env("CARGO_TARGET_DIR", root.join("target"));
        }
        tally::run("cargo test", &mut test, log)
    }
}
