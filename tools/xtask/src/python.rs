//! Finds the Pythons of this machine in `PATH` and in pyenv.

use crate::folders;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The minor versions of Python for which listed jaxlibs have wheels. 3.12 is first, because every revision has a wheel
/// for it.
pub(crate) const MINORS: [u32; 4] = [12, 13, 14, 11];

/// A Python for which jaxlib has wheels.
#[derive(Clone, Debug)]
pub(crate) struct Python {
    /// The path of the interpreter, not of a shim that starts the interpreter.
    pub(crate) exe: PathBuf,
    /// The minor version of Python, such as 12 for Python 3.12.
    pub(crate) minor: u32,
}

impl Python {
    /// Returns a command for the interpreter, without environment variables of Python such as PYTHONPATH.
    pub(crate) fn command(exe: &Path) -> Command {
        let mut command = Command::new(exe);
        for name in ["PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command
    }
}

/// Configures Python to store bytecode outside of the checkout. Without stored bytecode, importing jax takes three
/// times as long.
pub(crate) fn keep_bytecode(command: &mut Command) -> &mut Command {
    command.env_remove("PYTHONDONTWRITEBYTECODE").env(
        "PYTHONPYCACHEPREFIX",
        folders::checkout().join("target/pycache"),
    )
}

/// Returns all usable Pythons, one per minor version, in the order of [`MINORS`].
///
/// # Errors
/// Fails if this machine has no usable Python.
pub(crate) fn all() -> Result<Vec<Python>> {
    // The search runs only once, because pyenv's shims take a second to start.
    static FOUND: OnceLock<Vec<Python>> = OnceLock::new();
    let found = FOUND.get_or_init(|| MINORS.into_iter().filter_map(find).collect());
    if found.is_empty() {
        bail!(
            "no Python 3.11 to 3.14 found on PATH or under pyenv: install one, for example the system's packages \
             python3 and python3-venv, or `pyenv install 3.12`"
        );
    }
    Ok(found.clone())
}

/// Returns the first interpreter of a minor version: from `PATH`, from pyenv, or the program `python3`.
fn find(minor: u32) -> Option<Python> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let name = format!("python3.{minor}");
    let mut candidates: Vec<PathBuf> = folders.iter().map(|folder| folder.join(&name)).collect();
    let home = std::env::home_dir().map(|home| home.join(".pyenv"));
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or(home);
    if let Some(Ok(versions)) = pyenv.map(|root| std::fs::read_dir(root.join("versions"))) {
        let mut versions: Vec<PathBuf> = versions.flatten().map(|entry| entry.path()).collect();
        versions.sort();
        let versions = versions.iter().rev();
        candidates.extend(versions.map(|version| version.join("bin").join(&name)));
    }
    candidates.extend(folders.iter().map(|folder| folder.join("python3")));
    candidates.iter().find_map(|exe| probe(exe, minor))
}

/// Returns the interpreter if jaxlib has wheels for it. jaxlib has no wheels for free-threaded and 32-bit builds.
fn probe(exe: &Path, minor: u32) -> Option<Python> {
    const ASK: &str = "\
import sys, sysconfig
assert sys.implementation.name == 'cpython' and sys.maxsize > 2**32 and not sysconfig.get_config_var('Py_GIL_DISABLED')
print(sys.version_info[0], sys.version_info[1], sys.executable)";
    if !exe.is_file() {
        return None;
    }
    let text = output(Python::command(exe).args(["-I", "-c", ASK]), "python").ok()?;
    let exe = text.trim().strip_prefix(&format!("3 {minor} "))?;
    Some(Python {
        exe: exe.into(),
        minor,
    })
}

/// Runs a command until it exits, and returns its standard output. If the command fails, the error contains the last
/// lines of standard error.
pub(crate) fn output(command: &mut Command, what: &str) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("starting {what}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = errors.lines().collect();
        let tail = &lines[lines.len().saturating_sub(5)..];
        bail!("{what} failed ({}): {}", output.status, tail.join("\n"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
