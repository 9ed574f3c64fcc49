//! `cargo xtask matrix`: every feature of the same libraries on every jaxlib, and on other hosts of XLA.

mod document;
pub(crate) mod hosts;
mod table;

use crate::cargo::python_driver;
use crate::examples::{Built, Language};
use crate::expected::{Cell, Expected, Runtime};
use crate::uv::NoWheel;
use crate::venv::{self, Venv};
use crate::{jaxlibs, libraries, ui};
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use table::{Column, Outcome, Table};

/// Command line of `matrix`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A jaxlib instead of the whole list; may be given several times.
    #[arg(long, value_name = "X.Y.Z")]
    jaxlib: Vec<String>,
    /// Every jaxlib that the package index has, listed or not, yanked ones too: before each release.
    #[arg(long, conflicts_with = "jaxlib")]
    all: bool,
    /// A host other than jaxlib, instead of the whole list: one of those in `xtask/src/matrix/hosts.rs`, at the listed
    /// version when none is said; may be given several times.
    #[arg(long, value_name = "NAME[=VERSION]", conflicts_with = "all")]
    host: Vec<String>,
    /// Write what the hosts showed into docs/versions.md, with the date.
    #[arg(long)]
    document: bool,
    /// How many jaxlibs run at a time; as many as there are cores when not given.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// The libraries, in the order of the table.
const LIBRARIES: [(&str, &str); 4] = [
    ("rust", "Rust, this SDK"),
    ("c", "plain C, this SDK's helpers"),
    ("cpp", "C++, this SDK's headers"),
    ("upstream", "C++, the newest listed jaxlib's own headers"),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = jaxlibs::root();
    let start = Instant::now();
    let versions = if args.all {
        venv::published()?
    } else if args.jaxlib.is_empty() && args.host.is_empty() {
        jaxlibs::listed()
    } else {
        args.jaxlib.clone()
    };
    let runtimes = versions
        .iter()
        .map(|version| Runtime::of(version))
        .collect::<Result<Vec<_>>>()?;
    let path = root.join("tests/jax/expected.txt");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let expected = Expected::parse(&text).with_context(|| path.display().to_string())?;
    let path = root.join("tests/hosts/expected.txt");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let of_hosts = Expected::parse(&text).with_context(|| path.display().to_string())?;
    let hosts = if args.host.is_empty() && args.jaxlib.is_empty() {
        hosts::usual()
    } else {
        let asked = args.host.iter().map(|text| hosts::asked(text));
        asked.collect::<Result<Vec<_>>>()?
    };

    // The wheels of hosts are large: they come while the compilers work.
    let subjects = std::thread::scope(|scope| {
        for host in &hosts {
            scope.spawn(|| hosts::fetch(host));
        }
        Subjects::build(&root, !hosts.is_empty())
    })?;
    ui::note(format_args!(
        "libraries built: {}",
        ui::seconds(start.elapsed())
    ));
    let digests = subjects.digests()?;
    // The hosts take longest.
    let all: Vec<Runtime> = hosts.iter().chain(&runtimes).cloned().collect();
    let mut columns = columns(args, &root, &all, &subjects)?;
    let rest = columns.split_off(hosts.len());
    if subjects.digests()? != digests {
        bail!("a library changed while it was tested: run this alone");
    }
    let jaxlibs = Table {
        libraries: &LIBRARIES,
        runtimes,
        columns: rest,
        expected,
    };
    let others = Table {
        libraries: &LIBRARIES[..3],
        runtimes: hosts,
        columns,
        expected: of_hosts,
    };
    let mut good = true;
    for (table, file) in [(&jaxlibs, "tests/jax"), (&others, "tests/hosts")] {
        if !table.runtimes.is_empty() && !table.show() {
            eprintln!("the matrix differs from {file}/expected.txt");
            good = false;
        }
    }
    save(&root, &[jaxlibs.messages(), others.messages()].concat())?;
    if args.document {
        document::write(&root, &others)?;
    }
    println!("\nthe same libraries in every column:");
    for (name, digest) in digests {
        println!("  {digest}  {name}");
    }
    println!("matrix: {}", ui::seconds(start.elapsed()));
    for (table, what) in [(&jaxlibs, "jaxlibs"), (&others, "other hosts")] {
        if !table.runtimes.is_empty() {
            println!("{}", table.summary(what));
        }
    }
    if !good {
        bail!("the matrix is not as expected");
    }
    Ok(())
}

/// Keeps all cells with their messages.
fn save(root: &Path, all: &[serde_json::Value]) -> Result<()> {
    let path = root.join("target/xtask/matrix.json");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::write(&path, serde_json::to_string_pretty(all)?)
        .with_context(|| path.display().to_string())?;
    println!("all messages: {}", path.display());
    Ok(())
}

/// The libraries under test.
struct Subjects {
    libraries: Vec<(&'static str, PathBuf)>,
    /// Those with the original custom calls.
    legacy: Vec<(&'static str, PathBuf)>,
    /// Second libraries with the same names and types, one for each of `libraries`.
    twins: Vec<(&'static str, PathBuf)>,
    bootstrap: PathBuf,
    /// The program that runs rows on PJRT plugins; no path where no host is asked for.
    rows: PathBuf,
}

impl Subjects {
    /// The same files in every column, by name: their SHA-256.
    fn digests(&self) -> Result<Vec<(String, String)>> {
        let ours = self
            .libraries
            .iter()
            .filter(|(kind, _)| *kind != "upstream");
        ours.map(|(_, path)| {
            let data = std::fs::read(path).with_context(|| path.display().to_string())?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            Ok((name.into_owned(), format!("{:x}", Sha256::digest(&data))))
        })
        .collect()
    }

    fn build(root: &Path, with_hosts: bool) -> Result<Self> {
        libraries::build_rust(root)?;
        let rows = if with_hosts {
            hosts::build(root)?
        } else {
            PathBuf::new()
        };
        let built = Built::new(root)?;
        let named = |name, language| {
            let path = built.library(name, language)?;
            path.with_context(|| format!("no {} compiler", Language::name(language)))
        };
        let example = |language| named("conformance", language);
        Ok(Self {
            libraries: vec![
                ("rust", libraries::rust(root, "conformance")?),
                ("c", example(Language::C)?),
                ("cpp", example(Language::Cpp)?),
                (
                    "upstream",
                    libraries::upstream(root, "testing/fixtures/upstream/conformance.cc")?,
                ),
            ],
            legacy: vec![
                ("rust", libraries::rust(root, "legacy")?),
                ("c", named("11_legacy", Language::C)?),
                ("cpp", named("11_legacy", Language::Cpp)?),
            ],
            twins: vec![
                ("rust", libraries::rust(root, "conformance_twin")?),
                ("c", named("conformance_twin", Language::C)?),
                ("cpp", named("conformance_twin", Language::Cpp)?),
                (
                    "upstream",
                    libraries::upstream(root, "testing/fixtures/upstream/conformance_twin.cc")?,
                ),
            ],
            bootstrap: libraries::c(root, "testing/fixtures/upstream/bootstrap.c")?,
            rows,
        })
    }
}

/// Runs the hosts side by side.
fn columns(
    args: &Args,
    root: &Path,
    runtimes: &[Runtime],
    subjects: &Subjects,
) -> Result<Vec<Column>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or(cores).clamp(1, runtimes.len().max(1));
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Column>> = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((index, runtime)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    runtimes.get(index).map(|runtime| (index, runtime))
                } {
                    let start = Instant::now();
                    let (host, version) = (&runtime.host, &runtime.version);
                    let revision = runtime.revision;
                    ui::note(format_args!("{host} {version} ({revision}): started"));
                    let column = column(root, runtime, subjects);
                    ui::note(format_args!(
                        "{host} {version} ({revision}): {}, {}",
                        column.brief(),
                        ui::seconds(start.elapsed())
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
    for (kind, path) in &subjects.libraries {
        command.arg(format!("{kind}={}", path.display()));
    }
    for (kind, path) in &subjects.legacy {
        command
            .arg("--legacy")
            .arg(format!("{kind}={}", path.display()));
    }
    for (kind, path) in &subjects.twins {
        command
            .arg("--twin")
            .arg(format!("{kind}={}", path.display()));
    }
    command.arg("--bootstrap").arg(&subjects.bootstrap);
    let output = command
        .stderr(Stdio::piped())
        .output()
        .context("starting the driver")?;
    cells(&output)
}

/// The cells that a driver printed, a line of JSON each.
fn cells(output: &std::process::Output) -> Result<Column> {
    let mut order = Vec::new();
    let mut cells = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let data: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("the driver printed {line:?}"))?;
        let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
        let cell = match text("cell").as_str() {
            "ok" => Cell::Ok,
            "absent" => Cell::Absent,
            "moot" => Cell::Moot,
            "refused" => Cell::Refused,
            _ if text("message").starts_with("crash")
                || text("message").starts_with("no result") =>
            {
                Cell::Crash
            }
            _ => Cell::Wrong,
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

/// Whether this runs in CI, where everything listed has to be there.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI")
        .is_some_and(|value| !value.is_empty() && value != "false" && value != "0")
}
