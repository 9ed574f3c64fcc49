//! The list of jaxlib releases from `ffi-sys`, and virtual environments, one per Python and framework version.

use crate::folders;
use crate::python::{self, Python};
use crate::uv::{self, NoWheel};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use xla_ffi_sys::JAXLIBS;

/// The name of the package that provides XLA for JAX.
pub(crate) const JAXLIB: &str = "jaxlib";

/// A virtual environment with jax or a different framework.
#[derive(Clone, Debug)]
pub(crate) struct Venv {
    /// The path of the environment's Python interpreter.
    pub(crate) python: PathBuf,
    /// The minor version of Python, such as 12 for Python 3.12.
    pub(crate) minor: u32,
    /// The name of the framework's package, such as `jaxlib`.
    pub(crate) package: String,
    /// The version of the framework's package.
    pub(crate) version: String,
}

impl std::fmt::Display for Venv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (package, version) = (&self.package, &self.version);
        write!(f, "{package} {version} on Python 3.{}", self.minor)
    }
}

impl Venv {
    /// Returns the interpreter that created the environment.
    pub(crate) fn base(&self) -> Result<Python> {
        let mut pythons = python::all()?.into_iter();
        pythons
            .find(|python| python.minor == self.minor)
            .with_context(|| format!("no Python 3.{}", self.minor))
    }

    /// Returns a folder of the cache that contains packages for the interpreter. The folder is complete if it contains
    /// the file `file`.
    pub(crate) fn packages(&self, requirements: &[&str], file: &str) -> Result<PathBuf> {
        uv::folder(&self.base()?, requirements, file)
    }

    /// Returns the tags of the wheel of the framework's package, which include the oldest supported glibc.
    pub(crate) fn tags(&self) -> Result<String> {
        let Self {
            python,
            minor,
            package,
            version,
        } = self;
        let info = format!("lib/python3.{minor}/site-packages/{package}-{version}.dist-info/WHEEL");
        let place = python.ancestors().nth(2).context("an environment")?;
        std::fs::read_to_string(place.join(info)).context("the wheel's tags")
    }
}

/// Returns every listed jaxlib version, oldest first.
pub(crate) fn listed() -> Vec<String> {
    JAXLIBS.iter().copied().map(str::to_owned).collect()
}

/// Returns the versions on a command line, in which `all` is replaced by all listed versions.
pub(crate) fn expand(asked: &[String]) -> Result<Vec<String>> {
    let mut versions = Vec::new();
    for version in asked {
        if version == "all" {
            versions.extend(listed())
        } else {
            versions.push(version.clone())
        }
    }
    Ok(versions)
}

/// Returns the releases among `versions` that have this ABI, without duplicates, oldest first.
///
/// # Errors
/// Fails if a listed release is missing, because the package index was unavailable or its answer was not understood.
pub(crate) fn with_abi(mut versions: Vec<String>) -> Result<Vec<String>> {
    let oldest = uv::version_numbers(xla_ffi_sys::Revision::ALL[0].first_jaxlib())?;
    // Pre-releases and nightly builds are removed, because their version numbers contain other characters.
    versions.retain(|version| uv::version_numbers(version).is_ok_and(|numbers| numbers >= oldest));
    versions.sort_by_cached_key(|version| uv::version_numbers(version).unwrap_or_default());
    versions.dedup();
    if let Some(missing) = listed().iter().find(|listed| !versions.contains(listed)) {
        bail!(
            "the package index does not list jaxlib {missing}, which is listed: \
             is a Python missing here, or does the index keep a part only?"
        );
    }
    Ok(versions)
}

/// Returns an environment with the newest listed jaxlib that a Python of this machine can install.
pub(crate) fn newest() -> Result<Venv> {
    let mut last = None;
    for version in listed().iter().rev() {
        match exactly(version) {
            Err(error) if error.is::<NoWheel>() => last = Some(error),
            other => return other,
        }
    }
    Err(last.context("no jaxlib is listed")?).context("no listed jaxlib can be installed here")
}

/// Returns every jaxlib with this ABI that the package index has for any Python of this machine, oldest first.
pub(crate) fn published() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for python in &python::all()? {
        found.extend(uv::published(python)?);
    }
    with_abi(found)
}

/// Returns an environment with the jaxlib version `version`.
///
/// # Errors
/// Returns [`NoWheel`] if there is no wheel for any Python of this machine.
pub(crate) fn exactly(version: &str) -> Result<Venv> {
    uv::version_numbers(version)?;
    prepare(python::all()?, JAXLIB, version)
}

/// Returns an environment with the jaxlib version `version` for one Python, such as `3.12`.
pub(crate) fn exactly_on(version: &str, python: &str) -> Result<Venv> {
    uv::version_numbers(version)?;
    let mut pythons = python::all()?;
    pythons.retain(|known| format!("3.{}", known.minor) == python);
    if pythons.is_empty() {
        bail!("this machine has no Python {python} on PATH or in pyenv");
    }
    prepare(pythons, JAXLIB, version)
}

/// Returns an environment with the version `version` of a package and the package's requirements.
///
/// # Errors
/// Returns [`NoWheel`] if there is no wheel for any Python of this machine.
pub(crate) fn with(package: &str, version: &str) -> Result<Venv> {
    prepare(python::all()?, package, version)
}

fn prepare(mut pythons: Vec<Python>, package: &str, version: &str) -> Result<Venv> {
    const PYTHON: &str = "bin/python";
    let name = |python: &Python| format!("venvs/cp3{}-{package}-{version}", python.minor);
    // Pythons with an existing environment are first, so that a warm cache needs no package index.
    pythons.sort_by_key(|python| folders::find(&name(python), PYTHON).is_none());
    for python in &pythons {
        let made = folders::once(&name(python), PYTHON, |place| {
            uv::environment(python, place)?;
            fill(python, &place.join(PYTHON), package, version, &[])
        });
        match made {
            Ok(place) => {
                return Ok(Venv {
                    python: place.join(PYTHON),
                    minor: python.minor,
                    package: package.to_owned(),
                    version: version.to_owned(),
                });
            }
            Err(error) if error.is::<NoWheel>() => {}
            Err(error) => return Err(error),
        }
    }
    let pythons = pythons.iter().map(|python| format!("3.{}", python.minor));
    let pythons = pythons.collect::<Vec<_>>().join(", ");
    Err(NoWheel(format!("{package}=={version} for Python {pythons}")).into())
}

/// Creates an environment at `place`, outside of the cache, with a jaxlib, a jax that fits, and other packages.
pub(crate) fn make(python: &Python, place: &Path, jaxlib: &str, others: &[&str]) -> Result<()> {
    uv::environment(python, place)?;
    fill(python, &place.join("bin/python"), JAXLIB, jaxlib, others)
}

/// Installs a package and others. For jaxlib, also installs the jax with the same version, or the nearest version of
/// jax that accepts the jaxlib.
fn fill(python: &Python, exe: &Path, package: &str, version: &str, others: &[&str]) -> Result<()> {
    let exact = format!("{package}=={version}");
    if package != JAXLIB {
        return uv::install(exe, None, &[&[exact.as_str()], others].concat());
    }
    uv::install(exe, None, &[&exact, "--no-deps"])?;
    let numbers = uv::version_numbers(version)?;
    // Newer releases of numpy and scipy lack names that these releases of jax use.
    let fitting: &[&str] = match (numbers < vec![0, 13], python.minor) {
        (true, ..14) => &["numpy==2.2.6", "scipy==1.15.3", "ml_dtypes<0.7"],
        (true, 14..) => &["numpy>=2.3,<2.5", "scipy>=1.16,<1.18"],
        (false, _) => &[],
    };
    for jax in [
        format!("jax=={version}"),
        format!("jax>={version},<{}.{}", numbers[0], numbers[1] + 1),
        format!("jax<={version}"),
    ] {
        let requirements = [&[exact.as_str(), &jax], fitting, others].concat();
        match uv::install(exe, None, &requirements) {
            Err(error) if error.is::<NoWheel>() => {}
            other => return other,
        }
    }
    // The wheel of jaxlib exists, so the error must not be `NoWheel`.
    bail!("no jax fits jaxlib {version} on Python 3.{}", python.minor)
}

#[cfg(test)]
mod tests {
    #[test]
    fn published_releases_are_those_with_the_abi_in_order() {
        let mut index = super::listed();
        index.extend(["0.4.30", "0.9.0.1", "0.4.32", "0.4.32", "0.13.0rc1"].map(str::to_owned));
        let found = super::with_abi(index).unwrap();
        assert_eq!(&found[..3], &["0.4.31", "0.4.32", "0.4.33"]);
        assert!(found.contains(&"0.9.0.1".to_owned()));
        assert_eq!(found.len(), super::listed().len() + 2);
        assert!(super::with_abi(vec!["0.4.31".to_owned()]).is_err());
    }
}
