//! What pip finds in the index, and fetches from it.

use super::NoWheel;
use super::unpacked::readable;
use crate::cache::{Cache, Scratch};
use crate::python::{self, Python};
use crate::ui;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Whether pip may look for what a requirement requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependencies {
    /// It may.
    With,
    /// Only what is named.
    Without,
}

/// Fetches wheels with pip into the cache and returns their paths.
///
/// # Errors
/// [`NoWheel`] when the index was reached and has nothing that fits; otherwise what pip said.
pub(crate) fn fetch(
    cache: &Cache,
    python: &Python,
    requirements: &[String],
    dependencies: Dependencies,
) -> Result<Vec<PathBuf>> {
    let named = requirements.join(" ");
    let scratch = cache.scratch()?;
    let into = scratch.path().join("wheels");
    let mut pip = pip(cache, python, &scratch)?;
    pip.args([
        "download",
        "--no-input",
        "--progress-bar",
        "off",
        "--only-binary",
        ":all:",
        "--dest",
    ])
    .arg(&into);
    if dependencies == Dependencies::Without {
        pip.arg("--no-deps");
    }
    if dependencies == Dependencies::With {
        // What was fetched before need not come over the wire again. (Alone, a requirement is only fetched when it is
        // not in the cache, and other versions there would make an unreachable index look reached.)
        pip.arg("--find-links").arg(cache.path("wheels"));
    }
    pip.args(requirements);
    ui::note(format_args!(
        "fetching {named} for Python 3.{}",
        python.minor
    ));
    let output = pip.output().context("starting pip")?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        if errors.contains("No space left on device") || errors.contains("Disk quota exceeded") {
            return Err(cache.full());
        }
        if no_such_wheel(&errors) {
            return Err(NoWheel::new(&named, std::slice::from_ref(python)).into());
        }
        let said: Vec<&str> = errors
            .lines()
            .filter(|line| line.contains("ERROR"))
            .collect();
        bail!(
            "pip could not fetch {named}: is the package index reachable? pip said: {}",
            if said.is_empty() {
                errors.trim().to_owned()
            } else {
                said.join("\n")
            }
        );
    }
    let mut wheels = Vec::new();
    for entry in fs::read_dir(&into)
        .map_err(|error| cache.io(error, &into))?
        .flatten()
    {
        let place = cache.path("wheels").join(entry.file_name());
        if !readable(&entry.path()) {
            bail!("pip fetched {}, which is no wheel", entry.path().display());
        }
        if !(place.exists() && readable(&place)) {
            cache.publish(&entry.path(), &place)?;
        }
        wheels.push(place);
    }
    wheels.sort();
    Ok(wheels)
}

/// Every version of a package that the index has a wheel of for this Python, yanked ones too.
///
/// `pip index versions` leaves yanked ones out; the complaint about a version that nobody ever published has them.
pub(crate) fn published(cache: &Cache, python: &Python, package: &str) -> Result<Vec<String>> {
    let scratch = cache.scratch()?;
    let output = pip(cache, python, &scratch)?
        .args([
            "download",
            "--no-input",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--dest",
        ])
        .arg(scratch.path())
        .arg(format!("{package}==0"))
        .output()
        .context("starting pip")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    versions_told(&errors).with_context(|| {
        format!(
            "pip could not tell the versions of {package}: is the package index reachable? pip said: {}",
            errors.trim()
        )
    })
}

/// The versions in pip's complaint about one that is not there.
fn versions_told(errors: &str) -> Option<Vec<String>> {
    let listed = errors.split("(from versions: ").nth(1)?.split(')').next()?;
    let versions: Vec<String> = listed
        .split(',')
        .map(|version| version.trim().to_owned())
        .filter(|version| !version.is_empty() && version != "none")
        .collect();
    (!versions.is_empty()).then_some(versions)
}

/// Reads pip's complaint: versions listed, but not ours, means that the index was reached and has none.
fn no_such_wheel(errors: &str) -> bool {
    let unreached = [
        "Retrying (",
        "(from versions: none)",
        "Temporary failure",
        "Connection",
        "SSLError",
        "Network is unreachable",
    ];
    let unfit = errors.contains("No matching distribution found")
        || errors.contains("ResolutionImpossible");
    unfit && !unreached.iter().any(|sign| errors.contains(sign))
}

/// pip of a Python: from an environment of ours where that can be made, so that a distribution's own patches and
/// an "externally managed" mark do not matter.
fn pip(cache: &Cache, python: &Python, scratch: &Scratch) -> Result<Command> {
    let exe = if python.has_ensurepip() {
        tools(cache, python)?
    } else if python.has_pip() {
        python.exe.clone()
    } else {
        bail!("{} has no pip", python.exe.display());
    };
    let mut command = Python::command(&exe);
    // pip unpacks into the temporary folder: let that be on the cache's disk and vanish with it.
    command
        .env("TMPDIR", scratch.path())
        .env("LC_ALL", "C.UTF-8")
        .args(["-m", "pip"]);
    Ok(command)
}

fn tools(cache: &Cache, python: &Python) -> Result<PathBuf> {
    let place = cache.path("tools").join(python.tag());
    let exe = place.join("bin/python");
    let works = || {
        exe.exists()
            && Python::command(&exe)
                .args(["-m", "pip", "--version"])
                .output()
                .is_ok_and(|out| out.status.success())
    };
    let _lock = cache.lock(&format!("tools-{}", python.tag()))?;
    if works() {
        return Ok(exe);
    }
    // Its scripts name their own path: it is made in place, under the lock, and made again when it does not work.
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(|error| cache.io(error, &place))?;
    let made = python::output(
        Python::command(&python.exe)
            .args(["-m", "venv"])
            .arg(&place),
        "python -m venv",
    );
    made.with_context(|| {
        format!(
            "{} cannot make a virtual environment with pip: install the system's package python3.{}-venv",
            python.exe.display(),
            python.minor
        )
    })?;
    Ok(exe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reached_index_without_the_version_is_told_from_an_unreached_one() {
        let none = "ERROR: Could not find a version that satisfies the requirement jaxlib==9.9 (from versions: 0.4.31)\n\
                    ERROR: No matching distribution found for jaxlib==9.9";
        assert!(no_such_wheel(none));
        let offline = "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken\n\
                       ERROR: No matching distribution found for jaxlib==9.9";
        assert!(!no_such_wheel(offline));
        assert!(!no_such_wheel(&none.replace("0.4.31", "none")));
        assert!(!no_such_wheel("ERROR: something else"));
    }

    #[test]
    fn the_versions_are_read_from_pips_complaint() {
        let told = "ERROR: Could not find a version that satisfies the requirement jaxlib==0 \
                    (from versions: 0.4.31, 0.4.32, 0.9.0.1)\nERROR: No matching distribution found";
        assert_eq!(
            versions_told(told).unwrap(),
            ["0.4.31", "0.4.32", "0.9.0.1"]
        );
        assert!(versions_told("ERROR: (from versions: none)").is_none());
        assert!(versions_told("Connection refused").is_none());
    }
}
