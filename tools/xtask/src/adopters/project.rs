//! `tests/adopters/projects.toml` lists public projects with handlers for the CPU.

use crate::libraries::Compiler;
use crate::uv;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

/// The contents of `projects.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    packages_before: String,
    project: Vec<Project>,
}

/// A public project with its settings and expected results.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Project {
    /// The name of the source distribution in the package index.
    pub(crate) name: String,
    pub(crate) version: String,
    /// The SHA-256 checksum of the source distribution.
    pub(crate) sha256: String,
    /// The packages that the module or its tests import, in addition to jax and pytest.
    pub(crate) requires: Vec<String>,
    /// The packages that the build needs, in addition to those in pyproject.toml.
    #[serde(default)]
    pub(crate) build_requires: Vec<String>,
    /// The environment variables that are set for the build.
    #[serde(default)]
    pub(crate) build_env: BTreeMap<String, String>,
    /// The paths of files that the project's tests need.
    pub(crate) tests: Vec<String>,
    /// The arguments for pytest. Default: the paths in `tests`.
    #[serde(default)]
    pub(crate) pytest: Vec<String>,
    /// The reason why some of the project's tests are omitted.
    #[serde(default)]
    pub(crate) because: Option<String>,
    /// The folder of the copy of XLA's headers in the project's sources. Default: the headers of the installed jaxlib.
    #[serde(default)]
    pub(crate) headers: Option<String>,
    /// A system header that the build needs, with its package.
    #[serde(default)]
    system: Option<System>,
    /// Whether `cargo xtask test --all` runs the project.
    #[serde(default)]
    pub(crate) quick: bool,
    /// The jaxlibs to test on, each with the number of tests that pass with this project's headers.
    passed: BTreeMap<String, u64>,
    /// The date of the newest packages to install; packages uploaded later are ignored.
    #[serde(skip)]
    pub(crate) packages_before: String,
}

/// A requirement of a project on this machine's system packages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct System {
    header: String,
    debian: String,
}

impl Project {
    /// Reads `projects.toml`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if a project is incomplete.
    pub(crate) fn all(root: &Path) -> Result<Vec<Self>> {
        const PATH: &str = "tests/adopters/projects.toml";
        let text = std::fs::read_to_string(root.join(PATH)).context(PATH)?;
        parse(&text).context(PATH)
    }

    /// Returns the projects with the names in `names`, or all projects if `names` is empty.
    ///
    /// # Errors
    /// Fails if a name is unknown.
    pub(crate) fn named(mut all: Vec<Self>, names: &[String]) -> Result<Vec<Self>> {
        let known: Vec<_> = all.iter().map(|project| project.name.clone()).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(name)) {
            bail!("unknown project {name:?}: expected {}", known.join(", "));
        }
        all.retain(|project| names.is_empty() || names.contains(&project.name));
        Ok(all)
    }

    /// Returns the jaxlibs to test on, oldest first. Each has the number of tests that pass with the SDK's headers.
    pub(crate) fn jaxlibs(&self) -> Vec<(&str, u64)> {
        let mut jaxlibs: Vec<_> = (self.passed.iter())
            .map(|(version, passed)| (version.as_str(), *passed))
            .collect();
        jaxlibs.sort_by_cached_key(|(version, _)| uv::version_numbers(version).ok());
        jaxlibs
    }

    /// Returns the reason why the project cannot be built on this machine, which is a missing system package; `None` if
    /// it can.
    pub(crate) fn missing(&self) -> Result<Option<String>> {
        let Some(System { header, debian }) = &self.system else {
            return Ok(None);
        };
        let mut compiler = Compiler::Cpp.command();
        compiler.args(["-x", "c++", "-fsyntax-only", "-include", header, "-"]);
        compiler.stdin(Stdio::null()).stderr(Stdio::null());
        let found = compiler.status().context("starting the C++ compiler")?;
        let missing = || format!("no {header} (install {debian})");
        Ok((!found.success()).then(missing))
    }
}

fn parse(text: &str) -> Result<Vec<Project>> {
    let File {
        packages_before,
        mut project,
    } = toml::from_str(text)?;
    for project in &mut project {
        let name = &project.name;
        project.packages_before.clone_from(&packages_before);
        ensure!(!project.passed.is_empty(), "{name}: no jaxlib in `passed`");
        ensure!(
            project.pytest.is_empty() || project.because.is_some(),
            "{name}: say in `because` why `pytest` leaves tests out"
        );
        for version in project.passed.keys() {
            uv::version_numbers(version).with_context(|| format!("{name}: `passed`"))?;
        }
    }
    Ok(project)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "packages_before = '2026-01-01'\n[[project]]\nname = 'a'\nversion = '1'\nsha256 = ''\n\
                       requires = []\ntests = ['tests']\n";

    #[test]
    fn jaxlibs_are_in_order_of_their_numbers() {
        let text = format!("{ONE}passed = {{ '0.12.0' = 3, '0.9.1' = 2 }}");
        let projects = parse(&text).unwrap();
        assert_eq!(projects[0].jaxlibs(), [("0.9.1", 2), ("0.12.0", 3)]);
        assert!(Project::named(projects.clone(), &["b".to_owned()]).is_err());
        assert_eq!(Project::named(projects, &[]).unwrap().len(), 1);
    }

    #[test]
    fn incomplete_projects_are_errors() {
        let passed = "passed = { '0.9.1' = 2 }\n";
        for wrong in [
            "passed = {}".to_owned(),
            "passed = { newest = 1 }".to_owned(),
            format!("{passed}pytest = ['-k', 'not slow']"),
            format!("{passed}unknown = 1"),
        ] {
            assert!(parse(&format!("{ONE}{wrong}")).is_err(), "{wrong}");
        }
    }
}
