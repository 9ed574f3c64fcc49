//! `cargo xtask adopters` builds unchanged public projects with handlers, with XLA's headers and with this project's
//! headers.
//!
//! For both kinds of headers, the projects' tests run on several jaxlibs.

mod project;
mod report;

use crate::python::{self, Python};
use crate::tally::{self, Log, Outcome, Tally};
use crate::{folders, matrix, uv, venv};
use anyhow::{Context, Result, ensure};
use project::Project;
use report::{Build, Report, Row, Suite, table};
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Command line of `adopters`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Projects of tests/adopters/projects.toml. Default: all.
    name: Vec<String>,
    /// Run only the checks of `cargo xtask test --all`: the fastest projects, on older jaxlibs only with our headers.
    #[arg(long, conflicts_with = "name")]
    quick: bool,
}

/// Timeouts of a build and of a test run, in seconds.
const LIMITS: (&str, &str) = ("900", "300");

/// Compiler flags that show warnings, including those in headers.
const FLAGS: &str = "-Wall -Wextra";

/// Files that configure pytest.
const CONFIGURATION: [&str; 5] = [
    "pyproject.toml",
    "pytest.ini",
    "setup.cfg",
    "tox.ini",
    "conftest.py",
];

/// The headers that a project is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Headers {
    /// XLA's headers: the copy in the project's sources, or the headers of the newest jaxlib that the project's tests
    /// use.
    Upstream,
    Ours,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = folders::checkout();
    if args.quick {
        let tally = Tally::new();
        quick(&root, &tally);
        return tally.finish(matrix::in_ci());
    }
    let projects = Project::named(Project::all(&root)?, &args.name)?;
    let mut reports = vec![];
    let mut defects = vec![];
    for project in &projects {
        let name = &project.name;
        if let Some(missing) = project.missing()? {
            println!("skipped {name}: {missing}");
            if matrix::in_ci() {
                defects.push(format!("{name}: skipped, which CI must not"));
            }
            continue;
        }
        match Place::new(&root, project).and_then(|place| place.measure(true)) {
            Ok(report) => {
                defects.extend(report.defects());
                reports.push(report);
            }
            Err(error) => defects.push(format!("{name}: {error:#}")),
        }
    }
    println!("{}", table(&reports));
    for defect in &defects {
        println!("FAILED: {defect}");
    }
    ensure!(
        defects.is_empty(),
        "not every project is as projects.toml says"
    );
    Ok(())
}

/// Runs the fastest projects as steps. Builds with XLA's headers are tested only on the newest jaxlib.
pub(crate) fn quick(root: &Path, tally: &Tally) {
    let projects = match Project::all(root) {
        Ok(projects) => projects,
        Err(error) => return tally.wide("adopters", |_| Err(error)),
    };
    for project in projects.iter().filter(|project| project.quick) {
        tally.work(&format!("adopter {}", project.name), |log| {
            step(root, project, log)
        });
    }
}

fn step(root: &Path, project: &Project, log: &mut Log) -> Outcome {
    if let Some(missing) = project.missing()? {
        return Ok(vec![format!("{}: {missing}", project.name)]);
    }
    let report = Place::new(root, project)?.measure(false)?;
    log.push_str(&table(std::slice::from_ref(&report)));
    let defects = report.defects();
    ensure!(defects.is_empty(), "{}", defects.join("\n"));
    Ok(vec![])
}

/// The folder and environment in which a project is built and tested.
struct Place<'a> {
    root: &'a Path,
    project: &'a Project,
    folder: PathBuf,
    python: Python,
    sdist: PathBuf,
}

impl<'a> Place<'a> {
    fn new(root: &'a Path, project: &'a Project) -> Result<Self> {
        let python = python::all()?.swap_remove(0);
        let folder = root.join("target/adopters").join(&project.name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let mut place = Self {
            root,
            project,
            folder,
            python,
            sdist: PathBuf::new(),
        };
        place.sdist = place.fetch()?;
        Ok(place)
    }

    /// Returns the command that runs the step `name` of steps.py.
    fn step(&self, name: &str) -> Command {
        let mut command = Python::command(&self.python.exe);
        command.arg(self.root.join("tests/adopters/steps.py"));
        command.arg(name).current_dir(&self.folder);
        command
    }

    /// Downloads the source distribution to the cache. uv provides only the address, because uv can only install the
    /// built package.
    fn fetch(&self) -> Result<PathBuf> {
        let Project {
            name,
            version,
            sha256,
            ..
        } = self.project;
        let folder = format!("tools/sdist-{name}-{version}");
        let folder = folders::once(&folder, "sdist", |folder| {
            tally::note(format_args!("fetching {name} {version}"));
            fs::write(folder.join("requirements"), format!("{name}=={version}"))?;
            let lock = folder.join("pylock.toml");
            let mut uv = uv::command()?;
            uv.args(["pip", "compile", "--quiet", "--no-deps", "--python"])
                .arg(&self.python.exe)
                .args(["--format", "pylock.toml", "--output-file"])
                .args([lock.as_path(), &folder.join("requirements")]);
            python::output(&mut uv, "uv pip compile")?;
            let mut fetch = self.step("fetch");
            fetch
                .arg(&lock)
                .args([sha256.as_str(), "sdist"])
                .current_dir(folder);
            python::output(&mut fetch, &format!("fetching {name} {version}")).map(drop)
        })?;
        Ok(folder.join("sdist"))
    }

    /// Builds the project with both kinds of headers and runs its tests. If `full` is set, the tests also run on older
    /// jaxlibs with XLA's headers.
    fn measure(&self, full: bool) -> Result<Report> {
        let jaxlibs = self.project.jaxlibs();
        let (newest, _) = *jaxlibs.last().context("no jaxlib")?;
        let upstream = self.build(Headers::Upstream, newest)?;
        let ours = self.build(Headers::Ours, newest)?;
        let tests = self.folder.join("tests");
        let mut unpack = self.step("unpack");
        unpack.arg(&self.sdist).arg(&tests);
        unpack.args(&self.project.tests).args(CONFIGURATION);
        python::output(&mut unpack, "unpacking the tests")?;
        let mut rows = vec![];
        for (jaxlib, expected) in jaxlibs {
            let environment = self.environment(jaxlib, &self.project.requires, &["pytest"])?;
            let suite = |headers, build| self.test(&environment, headers, build, jaxlib);
            rows.push(Row {
                jaxlib: jaxlib.to_owned(),
                expected,
                upstream: match full || jaxlib == newest {
                    true => Some(suite(Headers::Upstream, &upstream)?),
                    false => None,
                },
                ours: suite(Headers::Ours, &ours)?,
            });
            fs::remove_dir_all(&environment)?;
        }
        let report = Report {
            project: self.project.name.clone(),
            version: self.project.version.clone(),
            upstream,
            ours,
            rows,
        };
        let json = serde_json::to_string_pretty(&report)?;
        fs::write(self.folder.join("report.json"), json)?;
        Ok(report)
    }

    /// Creates a fresh virtual environment with the jaxlib version `jaxlib`, packages and tools.
    fn environment(&self, jaxlib: &str, packages: &[String], tools: &[&str]) -> Result<PathBuf> {
        let place = self.folder.join("environment");
        let before = format!("--exclude-newer={}", self.project.packages_before);
        let packages = packages.iter().map(String::as_str);
        let packages: Vec<&str> = packages
            .chain(tools.iter().copied())
            .chain([before.as_str()])
            .collect();
        venv::make(&self.python, &place, jaxlib, &packages)?;
        Ok(place)
    }

    fn build(&self, headers: Headers, jaxlib: &str) -> Result<Build> {
        let name = headers.name();
        tally::note(format_args!(
            "{}: building, {name} headers",
            self.project.name
        ));
        let sources = self.folder.join("sources");
        let mut unpack = self.step("unpack");
        python::output(unpack.arg(&self.sdist).arg(&sources), "unpacking")?;
        let requirements: Vec<String> =
            self.result(self.step("build_requirements").arg(&sources))?;
        let requirements = [&requirements[..], &self.project.build_requires].concat();
        let environment = self.environment(jaxlib, &requirements, &[])?;
        if headers == Headers::Ours {
            let replaced = match &self.project.headers {
                Some(folder) => sources.join(folder),
                None => {
                    let minor = self.python.minor;
                    environment.join(format!("lib/python3.{minor}/site-packages/jaxlib/include"))
                }
            };
            fs::remove_dir_all(&replaced).with_context(|| replaced.display().to_string())?;
            std::os::unix::fs::symlink(self.root.join("include"), &replaced)?;
        }
        let wheels = self.folder.join(name);
        let mut uv = uv::command()?;
        uv.args(["build", "--wheel", "--no-build-isolation", "--python"])
            .args([
                &environment.join("bin/python"),
                Path::new("--out-dir"),
                &wheels,
                &sources,
            ]);
        let mut build = self.step("build");
        build
            .args([LIMITS.0, &format!("build-{name}.log")])
            .arg(&wheels)
            .arg(uv.get_program())
            .args(uv.get_args())
            .envs(uv.get_envs().filter_map(|(key, value)| Some((key, value?))))
            .env("PATH", activated(&environment)?)
            .env("CXXFLAGS", FLAGS)
            .envs(&self.project.build_env);
        let built = self.result(&mut build)?;
        fs::remove_dir_all(&environment)?;
        Ok(built)
    }

    fn test(
        &self,
        environment: &Path,
        headers: Headers,
        build: &Build,
        jaxlib: &str,
    ) -> Result<Suite> {
        let python = environment.join("bin/python");
        // The option `--no-deps` allows jax versions that the project excludes, which this test needs.
        let wheel = build.wheel.display().to_string();
        uv::install(&python, None, &[&wheel, "--no-deps", "--reinstall"])?;
        let name = format!("test-{jaxlib}-{}", headers.name());
        tally::note(format_args!("{}: {name}", self.project.name));
        let mut test = self.step("test");
        let report = format!("{name}.xml");
        test.args([LIMITS.1, &format!("../{name}.log"), &format!("../{report}")])
            .arg(&python)
            .args(["-P", "-m", "pytest", "-p", "no:cacheprovider"])
            .arg(format!("--junit-xml=../{report}"))
            .args(match self.project.pytest.is_empty() {
                true => &self.project.tests,
                false => &self.project.pytest,
            })
            .env("JAX_PLATFORMS", "cpu")
            .env("PATH", activated(environment)?)
            .current_dir(self.folder.join("tests"));
        python::keep_bytecode(&mut test);
        self.result(&mut test)
    }

    /// Runs a step and returns the result that the step printed.
    fn result<T: DeserializeOwned>(&self, step: &mut Command) -> Result<T> {
        let of = &self.project.name;
        let printed = python::output(step, of)?;
        serde_json::from_str(&printed).with_context(|| format!("{of}: {printed:?}"))
    }
}

/// Returns the search path with the programs of an environment.
fn activated(environment: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let programs = [environment.join("bin")];
    let folders = programs.into_iter().chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(folders)?)
}

impl Headers {
    fn name(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Ours => "ours",
        }
    }
}
