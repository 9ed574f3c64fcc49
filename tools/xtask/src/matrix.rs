//! `cargo xtask matrix` runs every feature of the same libraries on every jaxlib, and on other hosts of XLA.

pub(crate) mod hosts;
mod table;

use crate::cargo::python_driver;
use crate::examples::{Built, Language};
use crate::expected::{Cell, Expected, Runtime};
use crate::uv::NoWheel;
use crate::venv::{self, Venv};
use crate::{folders, libraries, tally};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use table::{Column, Outcome, Table};

/// Command line of `matrix`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run on this jaxlib instead of the whole list; may be repeated.
    #[arg(long, value_name = "X.Y.Z")]
    jaxlib: Vec<String>,
    /// Run on every jaxlib of the package index, including unlisted and yanked ones. Use it before each release.
    #[arg(long, conflicts_with = "jaxlib")]
    all: bool,
    /// Run only on this host other than jaxlib, at the listed version or at VERSION; may be repeated. The hosts are
    /// listed in `tools/xtask/src/matrix/hosts.rs`.
    #[arg(long, value_name = "NAME[=VERSION]", conflicts_with = "all")]
    host: Vec<String>,
}

/// The libraries in the order of the table, each with a title.
const LIBRARIES: [(&str, &str); 4] = [
    ("rust", "Rust, this SDK"),
    ("c", "plain C, this SDK's helpers"),
    ("cpp", "C++, this SDK's headers"),
    ("upstream", "C++, the newest listed jaxlib's own headers"),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = folders::checkout();
    let versions = if args.all {
        venv::published()?
    } else if args.jaxlib.is_empty() && args.host.is_empty() {
        venv::listed()
    } else {
        args.jaxlib.clone()
    };
    let runtimes = versions.iter().map(|version| Runtime::of(version));
    let runtimes = runtimes.collect::<Result<Vec<_>>>()?;
    let hosts = if args.host.is_empty() && args.jaxlib.is_empty() {
        hosts::usual()
    } else {
        let asked = args.host.iter().map(|text| hosts::asked(text));
        asked.collect::<Result<Vec<_>>>()?
    };
    let expected = |file: &str| {
        let text = std::fs::read_to_string(root.join(file)).with_context(|| file.to_owned())?;
        Expected::parse(&text).with_context(|| file.to_owned())
    };
    let (of_jaxlibs, of_hosts) = (
        expected("tests/jax/expected.txt")?,
        expected("tests/hosts/expected.txt")?,
    );
    let subjects = Subjects::build(&root, !hosts.is_empty())?;
    // The hosts other than jaxlib run first, because they take the longest time.
    let all: Vec<Runtime> = hosts.iter().chain(&runtimes).cloned().collect();
    let mut columns = columns(&root, &all, &subjects)?;
    let rest = columns.split_off(hosts.len());
    let jaxlibs = Table {
        libraries: &LIBRARIES,
        runtimes,
        columns: rest,
        expected: of_jaxlibs,
    };
    let others = Table {
        libraries: &LIBRARIES[..3],
        runtimes: hosts,
        columns,
        expected: of_hosts,
    };
    let mut good = true;
    for (table, what) in [(&jaxlibs, "jaxlibs"), (&others, "other hosts")] {
        if !table.runtimes.is_empty() {
            good &= table.show();
            println!("{}", table.summary(what));
        }
    }
    ensure!(good, "the matrix is not as expected.txt says");
    Ok(())
}

/// The libraries with which the matrix tests runtimes.
struct Subjects {
    libraries: Vec<(&'static str, PathBuf)>,
    /// Libraries with targets of the original custom calls.
    legacy: Vec<(&'static str, PathBuf)>,
    /// For each library in `libraries`, a second library whose handlers and types have the same names.
    twins: Vec<(&'static str, PathBuf)>,
    bootstrap: PathBuf,
    /// The program that runs rows on PJRT plugins; empty if no host is requested.
    rows: PathBuf,
}

impl Subjects {
    /// Adds the libraries to the command line of a driver.
    fn name_in(&self, command: &mut Command, with_upstream: bool) {
        for (flag, list) in [
            ("--library", &self.libraries),
            ("--legacy", &self.legacy),
            ("--twin", &self.twins),
        ] {
            for (kind, path) in list {
                if *kind == "upstream" && !with_upstream {
                    continue;
                }
                if flag != "--library" {
                    command.arg(flag);
                }
                command.arg(format!("{kind}={}", path.display()));
            }
        }
    }

    fn build(root: &Path, with_hosts: bool) -> Result<Self> {
        libraries::build_rust(root)?;
        let rows = if with_hosts {
            hosts::build(root)?
        } else {
            PathBuf::new()
        };
        let built = Built::new(root)?;
        // Returns the example or fixture with the name `name` in each language.
        let named = |rust: &str, name: &str| {
            let native = |language| {
                let path = built.library(name, language)?;
                path.with_context(|| format!("no {} compiler", Language::name(language)))
            };
            anyhow::Ok(vec![
                ("rust", libraries::rust(root, rust)?),
                ("c", native(Language::C)?),
                ("cpp", native(Language::Cpp)?),
            ])
        };
        let [mut libraries, mut twins] = [
            named("conformance", "conformance")?,
            named("conformance_twin", "conformance_twin")?,
        ];
        libraries.push(("upstream", libraries::upstream(root, None)?));
        twins.push(("upstream", libraries::upstream(root, Some("-DTWIN"))?));
        Ok(Self {
            libraries,
            legacy: named("legacy", "legacy")?,
            twins,
            bootstrap: libraries::c(root, "tests/fixtures/upstream/bootstrap.c")?,
            rows,
        })
    }
}

/// Runs the features on all hosts in parallel. Returns the results of each host.
fn columns(root: &Path, runtimes: &[Runtime], subjects: &Subjects) -> Result<Vec<Column>> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Column>> = Mutex::new(BTreeMap::new());
    let take = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        Some((index, runtimes.get(index)?))
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((index, runtime)) = take() {
                    let start = Instant::now();
                    let (host, version) = (&runtime.host, &runtime.version);
                    let revision = runtime.revision;
                    tally::note(format_args!("{host} {version} ({revision}): started"));
                    let column = column(root, runtime, subjects);
                    tally::note(format_args!(
                        "{host} {version} ({revision}): {}, {}",
                        column.brief(),
                        tally::seconds(start.elapsed())
                    ));
                    if let Ok(mut done) = done.lock() {
                        done.insert(index, column);
                    }
                }
            });
        }
    });
    let done = done
        .into_inner()
        .map_err(|_| anyhow::anyhow!("a worker died"))?;
    Ok(done.into_values().collect())
}

fn column(root: &Path, runtime: &Runtime, subjects: &Subjects) -> Column {
    if runtime.host != venv::JAXLIB {
        return hosts::column(root, runtime, subjects);
    }
    let venv = match venv::exactly(&runtime.version) {
        Ok(venv) => venv,
        Err(error) if error.is::<NoWheel>() => return Column::NoWheel(error.to_string()),
        Err(error) => return Column::Failed(format!("{error:#}")),
    };
    drive(root, &venv, subjects).unwrap_or_else(|error| Column::Failed(format!("{error:#}")))
}

fn drive(root: &Path, venv: &Venv, subjects: &Subjects) -> Result<Column> {
    let mut command = python_driver(root, venv, "matrix.py");
    subjects.name_in(&mut command, true);
    command.arg("--bootstrap").arg(&subjects.bootstrap);
    let output = command
        .stderr(Stdio::piped())
        .output()
        .context("starting the driver")?;
    cells(&output)
}

/// Returns the cells that a driver printed, one line of JSON per cell.
fn cells(output: &std::process::Output) -> Result<Column> {
    let mut order = Vec::new();
    let mut cells = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let data: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("the driver printed {line:?}"))?;
        let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
        let died = ["crash", "no result"]
            .iter()
            .any(|words| text("message").starts_with(words));
        let cell = match Cell::parse(&text("cell")) {
            Some(Cell::Wrong) | None if died => Cell::Crash,
            cell => cell.unwrap_or(Cell::Wrong),
        };
        let key = (text("library"), text("feature"));
        order.push(key.clone());
        cells.insert(
            key,
            Outcome {
                cell,
                message: text("message"),
            },
        );
    }
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!(
            "the driver ended with {}: {}",
            output.status,
            errors.lines().next_back().unwrap_or_default()
        );
    }
    Ok(Column::Cells { order, cells })
}

/// Returns true in CI, where every listed host and package must be available.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI")
        .is_some_and(|value| !value.is_empty() && value != "false" && value != "0")
}
