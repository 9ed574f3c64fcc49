//! Virtual environments: with jax, one a (Python, jaxlib) pair, and with another framework.
//!
//! An environment is a few kilobytes: its packages are the unpacked wheels of the cache, named by a
//! `.pth` file, so numpy and scipy lie on the disk once however many jaxlibs use them.

use crate::cache::Cache;
use crate::jaxlibs;
use crate::python::{self, Python};
use crate::ui;
use crate::wheel::{self, Dependencies, NoWheel};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The package that an environment is made for.
pub(crate) const JAXLIB: &str = "jaxlib";

/// An environment that can run jax, or another framework.
#[derive(Clone, Debug)]
pub(crate) struct Venv {
    /// Its interpreter.
    pub(crate) python: PathBuf,
    /// 12 for Python 3.12.
    pub(crate) minor: u32,
    /// The package that it is made for.
    pub(crate) package: String,
    /// The package's version.
    pub(crate) version: String,
}

/// What an environment is to have.
#[derive(Clone, Copy, Debug)]
struct Wanted<'a> {
    package: &'a str,
    version: &'a str,
}

impl<'a> Wanted<'a> {
    fn jaxlib(version: &'a str) -> Self {
        Self {
            package: JAXLIB,
            version,
        }
    }

    /// The name of the environment for Python 3.`minor`.
    fn name(self, minor: u32) -> String {
        format!("cp3{minor}-{}-{}", self.package, self.version)
    }
}

impl std::fmt::Display for Venv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (package, version) = (&self.package, &self.version);
        write!(f, "{package} {version} on Python 3.{}", self.minor)
    }
}

/// The newest listed jaxlib that a Python of this machine can install.
pub(crate) fn newest() -> Result<Venv> {
    let cache = Cache::open()?;
    let pythons = python::all()?;
    let mut last = None;
    let listed = jaxlibs::listed();
    for version in listed.iter().rev() {
        match prepare(&cache, &pythons, Wanted::jaxlib(version)) {
            Ok(venv) => return Ok(venv),
            Err(error) if error.is::<NoWheel>() => last = Some(error),
            // Without the index nobody knows whether this version could be had: take what is at hand.
            Err(error)
                if listed
                    .iter()
                    .any(|version| is_known(&cache, JAXLIB, version)) =>
            {
                ui::note(format_args!("{error:#}"));
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(last.context("no jaxlib is listed")?).context("no listed jaxlib can be installed here")
}

/// The newest jaxlib that the index has, listed or not.
pub(crate) fn latest() -> Result<Venv> {
    let cache = Cache::open()?;
    let pythons = python::all()?;
    let mut best: Option<(Vec<u32>, String)> = None;
    for python in &pythons {
        let wheels = wheel::fetch(
            &cache,
            python,
            &["jaxlib".to_owned()],
            Dependencies::Without,
        )?;
        let name = wheels
            .first()
            .and_then(|path| path.file_name())
            .map(|name| name.to_string_lossy().into_owned());
        let version = name
            .as_deref()
            .and_then(|name| name.split('-').nth(1))
            .context("pip fetched nothing")?;
        let numbers = jaxlibs::parts(version)?;
        if best.as_ref().is_none_or(|(known, _)| *known < numbers) {
            best = Some((numbers, version.to_owned()));
        }
    }
    let (_, version) = best.context("no Python")?;
    prepare(&cache, &pythons, Wanted::jaxlib(&version))
}

/// Every jaxlib with this ABI that the index has for some Python of this machine, oldest first.
pub(crate) fn published() -> Result<Vec<String>> {
    let cache = Cache::open()?;
    let pythons = python::all()?;
    let mut found = Vec::new();
    for python in &pythons {
        found.extend(wheel::published(&cache, python, "jaxlib")?);
    }
    jaxlibs::with_abi(found)
}

/// An environment with exactly this jaxlib.
///
/// # Errors
/// [`NoWheel`] when none of the machine's Pythons has a wheel of it.
pub(crate) fn exactly(version: &str) -> Result<Venv> {
    jaxlibs::parts(version)?;
    prepare(&Cache::open()?, &python::all()?, Wanted::jaxlib(version))
}

/// An environment with exactly this jaxlib, for one Python.
///
/// # Errors
/// The machine has no such Python; [`NoWheel`] when the jaxlib has no wheel for it.
pub(crate) fn exactly_on(version: &str, python: &str) -> Result<Venv> {
    jaxlibs::parts(version)?;
    let minor = python
        .strip_prefix("3.")
        .and_then(|minor| minor.parse().ok());
    let mut pythons = python::all()?;
    pythons.retain(|python| Some(python.minor) == minor);
    if pythons.is_empty() {
        anyhow::bail!(
            "this machine has no Python {python} on PATH or in pyenv that could make an environment"
        );
    }
    prepare(&Cache::open()?, &pythons, Wanted::jaxlib(version))
}

/// An environment with exactly this version of a package, and what it requires.
///
/// # Errors
/// [`NoWheel`] when none of the machine's Pythons has a wheel of it.
pub(crate) fn with(package: &str, version: &str) -> Result<Venv> {
    let wanted = Wanted { package, version };
    prepare(&Cache::open()?, &python::all()?, wanted)
}

/// The file name of the wheel of a jaxlib for which an environment was made; its tags tell the oldest glibc.
pub(crate) fn wheel_name(version: &str) -> Result<String> {
    let cache = Cache::open()?;
    let start = format!("jaxlib-{version}-");
    for python in python::all()? {
        if let Ok(text) =
            fs::read_to_string(resolved_file(&cache, &python, Wanted::jaxlib(version)))
            && let Some(name) = text.lines().find(|name| name.starts_with(&start))
        {
            return Ok(name.to_owned());
        }
    }
    anyhow::bail!("no wheel of jaxlib {version} was fetched")
}

/// Whether everything that some Python needs for this jaxlib was fetched before.
pub(crate) fn is_known(cache: &Cache, package: &str, version: &str) -> bool {
    python::MINORS.iter().any(|minor| {
        cache
            .path("resolved")
            .join(Wanted { package, version }.name(*minor))
            .is_file()
    })
}

fn prepare(cache: &Cache, pythons: &[Python], wanted: Wanted<'_>) -> Result<Venv> {
    // A Python for which everything is at hand goes first: a warm cache needs no index.
    let at_hand = |python: &&Python| resolved_file(cache, python, wanted).is_file();
    let known = pythons.iter().filter(at_hand);
    let unknown = pythons.iter().filter(|python| !at_hand(python));
    for python in known.chain(unknown) {
        match prepare_for(cache, python, wanted) {
            Ok(venv) => return Ok(venv),
            Err(error) if error.is::<NoWheel>() => {}
            Err(error) => return Err(error),
        }
    }
    Err(NoWheel::new(&format!("{}=={}", wanted.package, wanted.version), pythons).into())
}

fn prepare_for(cache: &Cache, python: &Python, wanted: Wanted<'_>) -> Result<Venv> {
    let name = wanted.name(python.minor);
    let _lock = cache.lock(&format!("venv-{name}"))?;
    let wheels = resolve(cache, python, wanted)?;
    let mut folders = Vec::new();
    for file in &wheels {
        folders.push(unpack_or_heal(cache, python, wanted, file)?);
    }
    let place = cache.path("venvs").join(&name);
    let venv = Venv {
        python: place.join("bin/python"),
        minor: python.minor,
        package: wanted.package.to_owned(),
        version: wanted.version.to_owned(),
    };
    let stamp = format!(
        "{}\n{}\n",
        python.exe.display(),
        folders
            .iter()
            .map(|folder| folder.display().to_string())
            .collect::<Vec<_>>()
            .join("\n")
    );
    let stamp_file = place.join("xla-ffi-stamp");
    if fs::read_to_string(&stamp_file).is_ok_and(|text| text == stamp) && venv.python.exists() {
        return Ok(venv);
    }
    ui::note(format_args!("making the environment of {venv}"));
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(|error| cache.io(error, &place))?;
    python::output(
        Python::command(&python.exe)
            .args(["-m", "venv", "--without-pip"])
            .arg(&place),
        "python -m venv",
    )?;
    let site = place.join(format!("lib/python3.{}/site-packages", python.minor));
    let lines: String = folders.iter().map(|folder| path_lines(folder)).collect();
    let pth = site.join("xla_ffi_cache.pth");
    fs::write(&pth, lines).map_err(|error| cache.io(error, &pth))?;
    // The stamp comes last: without it the environment is made again.
    fs::write(&stamp_file, stamp).map_err(|error| cache.io(error, &stamp_file))?;
    Ok(venv)
}

/// The lines of a `.pth` file by which Python finds the packages in a folder. What they have in such files of their
/// own (setuptools' stand-in for `distutils`, which TensorFlow 2.18 imports) is read as if they were installed.
fn path_lines(folder: &Path) -> String {
    let own = fs::read_dir(folder).is_ok_and(|entries| {
        entries
            .flatten()
            .any(|entry| entry.path().extension().is_some_and(|end| end == "pth"))
    });
    if own {
        return format!(
            "import site; site.addsitedir({:?})\n",
            folder.display().to_string()
        );
    }
    format!("{}\n", folder.display())
}

fn resolved_file(cache: &Cache, python: &Python, wanted: Wanted<'_>) -> PathBuf {
    cache.path("resolved").join(wanted.name(python.minor))
}

/// Names of the wheels that the pair needs: from the cache when it knows them, else pip's answer.
fn resolve(cache: &Cache, python: &Python, wanted: Wanted<'_>) -> Result<Vec<String>> {
    let file = resolved_file(cache, python, wanted);
    if let Ok(text) = fs::read_to_string(&file) {
        let names: Vec<String> = text.lines().map(str::to_owned).collect();
        let there = |name: &String| {
            wheel::whole(&cache.path("unpacked").join(name.trim_end_matches(".whl")))
                || wheel::readable(&cache.path("wheels").join(name))
        };
        if !names.is_empty() && names.iter().all(there) {
            return Ok(names);
        }
    }
    let wheels = fetch_set(cache, python, wanted)?;
    let names: Vec<String> = wheels
        .iter()
        .filter_map(|path| path.file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let scratch = cache.scratch()?;
    let made = scratch.path().join("resolved");
    fs::write(
        &made,
        names
            .iter()
            .map(|name| format!("{name}\n"))
            .collect::<String>(),
    )
    .map_err(|error| cache.io(error, &made))?;
    cache.publish(&made, &file)?;
    Ok(names)
}

/// Asks pip for what an environment needs.
fn fetch_set(cache: &Cache, python: &Python, wanted: Wanted<'_>) -> Result<Vec<PathBuf>> {
    if wanted.package == JAXLIB {
        return fetch_pair(cache, python, wanted.version);
    }
    let requirement = format!("{}=={}", wanted.package, wanted.version);
    wheel::fetch(cache, python, &[requirement], Dependencies::With)
}

/// Asks pip for jaxlib, the jax of the same number (or the nearest that accepts it) and what both need.
fn fetch_pair(cache: &Cache, python: &Python, version: &str) -> Result<Vec<PathBuf>> {
    let jaxlib = format!("jaxlib=={version}");
    // First the exact wheel alone: it tells "no such wheel" from "no jax that fits".
    let prefix = format!("jaxlib-{version}-{}-", python.tag());
    if wheel::cached(cache, |name| name.starts_with(&prefix))?.is_none() {
        wheel::fetch(
            cache,
            python,
            std::slice::from_ref(&jaxlib),
            Dependencies::Without,
        )?;
    }
    let numbers = jaxlibs::parts(version)?;
    let next_minor = format!("{}.{}", numbers[0], numbers[1] + 1);
    let jaxes = [
        format!("jax=={version}"),
        format!("jax>={version},<{next_minor}"),
        format!("jax<={version}"),
    ];
    let mut last = None;
    for (jax, fitted) in jaxes.iter().flat_map(|jax| [(jax, true), (jax, false)]) {
        let mut requirements = vec![jaxlib.clone(), jax.clone()];
        if fitted {
            requirements.extend(fitting(python, &numbers));
        }
        match wheel::fetch(cache, python, &requirements, Dependencies::With) {
            Ok(wheels) => return Ok(wheels),
            Err(error) if error.is::<NoWheel>() => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    // The wheel exists, so this is not "no wheel" for the caller to pass over.
    let last = last.map_or_else(String::new, |error| error.to_string());
    anyhow::bail!(
        "no jax fits jaxlib {version} on Python 3.{}: {last}",
        python.minor
    )
}

/// numpy and scipy for a jaxlib: one pair serves the whole list, since later ones removed names that old jax uses.
fn fitting(python: &Python, jaxlib: &[u32]) -> Vec<String> {
    let old = jaxlib < &[0, 13][..];
    match (old, python.minor) {
        (true, ..14) => vec![
            "numpy==2.2.6".into(),
            "scipy==1.15.3".into(),
            "ml_dtypes<0.7".into(),
        ],
        (true, 14..) => vec!["numpy>=2.3,<2.5".into(), "scipy>=1.16,<1.18".into()],
        (false, _) => Vec::new(),
    }
}

fn unpack_or_heal(
    cache: &Cache,
    python: &Python,
    wanted: Wanted<'_>,
    file: &str,
) -> Result<PathBuf> {
    let place = cache.path("unpacked").join(file.trim_end_matches(".whl"));
    if wheel::whole(&place) {
        return Ok(place);
    }
    let path = cache.path("wheels").join(file);
    match wheel::unpack(cache, &path) {
        Ok(folder) => Ok(folder),
        // A wheel that turned out damaged is gone now: fetch the set once more.
        Err(error) if !path.exists() => {
            ui::note(format_args!("{error:#}"));
            fetch_set(cache, python, wanted)?;
            wheel::unpack(cache, &path)
        }
        Err(error) => Err(error),
    }
}
