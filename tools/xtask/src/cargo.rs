//! Runs cargo, and the Python interpreters of virtual environments.

use crate::python::{self, Python};
use crate::venv::Venv;
use crate::{folders, tally, uv};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a command for the cargo that runs this task. The working directory is the checkout.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // `cargo run` sets this variable for xtask. If other commands inherited the variable, cargo would rebuild packages
    // unnecessarily.
    command.env_remove("CARGO_MANIFEST_DIR");
    // The stored bytecode is also for tests that start Python.
    python::keep_bytecode(&mut command);
    // All steps use the same compiler for GPU kernels, so that no kernel is built twice.
    if let Some(nvcc) = uv::nvcc_at_hand() {
        command.env("XLA_FFI_NVCC", nvcc);
    }
    command
}

/// Returns a program of a package from the registry, which cargo installs in the cache.
pub(crate) fn tool(root: &Path, name: &str, version: &str) -> Result<PathBuf> {
    let program = format!("bin/{name}");
    let place = folders::once(&format!("tools/{name}-{version}"), &program, |place| {
        tally::note(format_args!("installing {name}"));
        let mut install = cargo(root);
        install.args(["install", "--quiet", "--locked", "--root"]);
        install.arg(place).args([name, "--version", version]);
        ensure!(install.status()?.success(), "{name} does not build");
        Ok(())
    })?;
    Ok(place.join(program))
}

/// Builds the tests that `arguments` of `cargo test` select, and returns the path of the last test program.
pub(crate) fn test_program(root: &Path, arguments: &[&str]) -> Result<PathBuf> {
    let mut command = cargo(root);
    command.args(["test", "--no-run", "--message-format", "json"]);
    let said = python::output(command.args(arguments), "cargo test --no-run")?;
    let mut programs = said
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        // cargo also builds the programs that the test runs.
        .filter(|message| message["profile"]["test"] == true)
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    programs
        .next_back()
        .with_context(|| format!("cargo names no test program for {arguments:?}"))
}

/// The output of `cargo metadata`.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
}

/// A package of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) version: String,
    pub(crate) features: BTreeMap<String, Vec<String>>,
    /// The registries that may publish the package. An empty list means no registry; `None` means all registries.
    pub(crate) publish: Option<Vec<String>>,
    #[cfg(test)]
    #[serde(default)]
    pub(crate) manifest_path: std::path::PathBuf,
}

/// Queries cargo for the packages of the workspace.
pub(crate) fn metadata(root: &Path) -> Result<Metadata> {
    let output = cargo(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("running cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    serde_json::from_slice(&output.stdout).context("reading cargo metadata")
}

/// Builds the Rust example libraries into `target/release/examples`.
pub(crate) fn build_examples(root: &Path) -> Command {
    let mut command = cargo(root);
    command.args([
        "build",
        "--release",
        "--package",
        "xla-ffi-examples",
        "--package",
        "xla-ffi-fixtures",
        "--package",
        "xla-ffi-record",
        "--examples",
        "--lib",
    ]);
    command
}

/// Returns a command that runs a driver of `tests/jax` in an environment. The driver imports the loader from the folder
/// `python`.
pub(crate) fn python_driver(root: &Path, venv: &Venv, driver: &str) -> Command {
    let mut command = Python::command(&venv.python);
    command
        .arg(root.join("tests/jax").join(driver))
        .current_dir(root)
        .env("PYTHONPATH", root.join("python"))
        .env("XLA_FFI_CLI", root.join("target/debug/xla-ffi"))
        .env("JAX_PLATFORMS", "cpu");
    python::keep_bytecode(&mut command);
    command
}

#[cfg(test)]
mod tests {
    use super::metadata;
    use std::fs;
    use std::path::Path;

    // The published crates must build with the Rust version in their `rust-version`. Clippy's `incompatible_msrv`
    // detects newer functions, but no lint detects newer syntax. `if let … && …` (Rust 1.88) is the most likely
    // mistake.

    /// Returns true if a condition in the source text contains `let … && …`.
    fn has_chain(text: &str) -> bool {
        let begins_with_let = ["if let ", "while let "].iter().any(|words| {
            text.split(words).skip(1).any(|rest| {
                let condition = rest.split(" {\n").next().unwrap_or_default();
                let mut depth = 0;
                condition.match_indices(['(', ')', '&']).any(|(at, sign)| {
                    depth += i32::from(sign == "(") - i32::from(sign == ")");
                    depth == 0 && condition[at..].starts_with("&& ")
                })
            })
        });
        begins_with_let || text.contains("&& let ")
    }

    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && has_chain(&fs::read_to_string(&path).unwrap())
            {
                found.push(path.display().to_string());
            }
        }
    }

    #[test]
    fn published_crates_keep_to_syntax_of_their_rust_version() {
        assert!(has_chain("while c && let Some(a) = b && a {\n"));
        assert!(has_chain("if let Some(a) = b\n    && a\n{\n"));
        assert!(!has_chain(
            "if let Some(a) = b(|c| c && d) {\n if c && a {\n"
        ));
        let mut found = Vec::new();
        let packages = metadata(&crate::folders::checkout()).unwrap().packages;
        for package in packages.iter().filter(|package| package.publish.is_none()) {
            sources(&package.manifest_path.with_file_name("src"), &mut found);
        }
        assert!(found.is_empty(), "{found:#?}");
    }
}
