//! The Pythons of this machine, from `PATH` and from pyenv.

use crate::jaxlibs;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Minor versions that jaxlib wheels of our list exist for. The first entry is taken first: 3.12 has a wheel
/// of every revision, so that one Python serves all of them.
pub(crate) const MINORS: [u32; 4] = [12, 13, 14, 11];

/// A usable Python.
#[derive(Clone, Debug)]
pub(crate) struct Python {
    /// The interpreter.
    pub(crate) exe: PathBuf,
    /// 12 for Python 3.12.
    pub(crate) minor: u32,
    ensurepip: bool,
    pip: bool,
}

impl Python {
    /// `cp312` for Python 3.12, as wheels spell it.
    pub(crate) fn tag(&self) -> String {
        format!("cp3{}", self.minor)
    }

    /// Whether this interpreter can make an environment that has pip by itself.
    pub(crate) fn has_ensurepip(&self) -> bool {
        self.ensurepip
    }

    /// Whether this interpreter has pip of its own.
    pub(crate) fn has_pip(&self) -> bool {
        self.pip
    }

    /// The interpreter, cut off from the caller's Python settings.
    pub(crate) fn command(exe: &Path) -> Command {
        let mut command = Command::new(exe);
        for name in [
            "PYTHONPATH",
            "PYTHONHOME",
            "PYTHONSTARTUP",
            "VIRTUAL_ENV",
            "__PYVENV_LAUNCHER__",
        ] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command
    }
}

/// Lets an interpreter keep what it compiled, whatever this machine's settings are, and not beside the sources:
/// importing jax from those takes three times as long.
pub(crate) fn keep_bytecode(command: &mut Command) -> &mut Command {
    command.env_remove("PYTHONDONTWRITEBYTECODE").env(
        "PYTHONPYCACHEPREFIX",
        jaxlibs::root().join("target/pycache"),
    )
}

/// All usable Pythons, one a minor version, in the order of [`MINORS`].
///
/// # Errors
/// One line that says what is missing and how to get it.
pub(crate) fn all() -> Result<Vec<Python>> {
    // Asking takes a second where pyenv's shims are on PATH: once is enough.
    static FOUND: OnceLock<Result<Vec<Python>, String>> = OnceLock::new();
    FOUND
        .get_or_init(|| find().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(anyhow::Error::msg)
}

fn find() -> Result<Vec<Python>> {
    let mut found: BTreeMap<usize, Python> = BTreeMap::new();
    let mut unfit: Vec<String> = Vec::new();
    for candidate in candidates() {
        match probe(&candidate) {
            Probe::Fits(python) => {
                let Some(rank) = MINORS.iter().position(|minor| *minor == python.minor) else {
                    continue;
                };
                found.entry(rank).or_insert(python);
            }
            Probe::Lacks(what) => unfit.push(what),
            Probe::Unknown => {}
        }
    }
    if !found.is_empty() {
        return Ok(found.into_values().collect());
    }
    if let Some(what) = unfit.first() {
        bail!("{what}");
    }
    bail!(
        "no Python 3.11 to 3.14 found on PATH or under pyenv: install one, for example with the system's packages \
         python3 and python3-venv, or with `pyenv install 3.12`"
    )
}

/// Paths that may be a Python, the likely ones first.
fn candidates() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let on_path: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    for minor in MINORS {
        paths.extend(
            on_path
                .iter()
                .map(|folder| folder.join(format!("python3.{minor}"))),
        );
    }
    for root in pyenv_roots() {
        let Ok(versions) = std::fs::read_dir(root.join("versions")) else {
            continue;
        };
        let mut names: Vec<PathBuf> = versions.flatten().map(|entry| entry.path()).collect();
        names.sort();
        for version in names.into_iter().rev() {
            paths.extend(MINORS.map(|minor| version.join(format!("bin/python3.{minor}"))));
        }
    }
    paths.extend(on_path.iter().map(|folder| folder.join("python3")));
    paths.retain(|path| path.is_file());
    let mut seen = std::collections::BTreeSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    paths
}

fn pyenv_roots() -> Vec<PathBuf> {
    let mut roots = Vec::new();
    if let Some(root) = std::env::var_os("PYENV_ROOT") {
        roots.push(PathBuf::from(root));
    }
    if let Ok(output) = Command::new("pyenv")
        .arg("root")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        && output.status.success()
    {
        roots.push(PathBuf::from(
            String::from_utf8_lossy(&output.stdout).trim(),
        ));
    }
    if let Some(home) = std::env::home_dir() {
        roots.push(home.join(".pyenv"));
    }
    roots.dedup();
    roots
}

enum Probe {
    Fits(Python),
    Lacks(String),
    Unknown,
}

/// Asks an interpreter what it is. Free-threaded and 32-bit builds have no wheels in our list.
fn probe(exe: &Path) -> Probe {
    const ASK: &str = "
import importlib.util as u, sys, sysconfig
fits = sys.implementation.name == 'cpython' and sys.maxsize > 2**32 and not sysconfig.get_config_var('Py_GIL_DISABLED')
has = lambda name: int(u.find_spec(name) is not None)
ensurepip = has('ensurepip')
print(sys.version_info[0], sys.version_info[1], int(fits), has('venv'), ensurepip, has('pip'), sys.executable)
";
    let output = Python::command(exe)
        .args(["-I", "-c", ASK])
        .stderr(Stdio::null())
        .output();
    let Ok(output) = output else {
        return Probe::Unknown;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text.trim().splitn(7, ' ');
    let mut number = || {
        words
            .next()
            .and_then(|word| word.parse::<u32>().ok())
            .unwrap_or(0)
    };
    let (major, minor, fits, venv, ensurepip, pip) = (
        number(),
        number(),
        number() == 1,
        number() == 1,
        number() == 1,
        number() == 1,
    );
    let real = words.next().map_or_else(|| exe.to_owned(), PathBuf::from);
    if major != 3 || !MINORS.contains(&minor) || !fits {
        return Probe::Unknown;
    }
    if !venv {
        return Probe::Lacks(format!(
            "{} has no venv module: install the system's package python3.{minor}-venv, or a whole Python with `pyenv install 3.{minor}`",
            exe.display()
        ));
    }
    if !ensurepip && !pip {
        return Probe::Lacks(format!(
            "{} has neither pip nor ensurepip: install the system's package python3.{minor}-venv, or a whole Python with `pyenv install 3.{minor}`",
            exe.display()
        ));
    }
    Probe::Fits(Python {
        exe: real,
        minor,
        ensurepip,
        pip,
    })
}

/// Runs a command to its end and returns what it printed; its last lines make the error.
pub(crate) fn output(command: &mut Command, what: &str) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("starting {what}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let tail: Vec<&str> = errors.lines().rev().take(5).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        bail!("{what} failed ({}): {}", output.status, tail.join("\n"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
