//! `cargo xtask matrix`: every feature of the same libraries on every jaxlib.

use crate::cache::Cache;
use crate::cargo::python_driver;
use crate::examples::{Built, Language};
use crate::expected::{Cell, Expected, Runtime};
use crate::venv::{self, Venv};
use crate::wheel::NoWheel;
use crate::{jaxlibs, libraries, ui};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Command line of `matrix`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A jaxlib instead of the whole list; may be given several times.
    #[arg(long, value_name = "X.Y.Z")]
    jaxlib: Vec<String>,
    /// Every jaxlib that the package index has, listed or not, yanked ones too: before each release.
    #[arg(long, conflicts_with = "jaxlib")]
    all: bool,
    /// How many jaxlibs run at a time; as many as there are cores when not given.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Disk space that one jaxlib may take, from its wheel to its unpacked files.
const BYTES_A_JAXLIB: u64 = 1 << 30;

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
    } else if args.jaxlib.is_empty() {
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
    check_space(&versions)?;

    let subjects = Subjects::build(&root)?;
    ui::note(format_args!(
        "libraries built: {}",
        ui::seconds(start.elapsed())
    ));
    let columns = columns(args, &root, &runtimes, &subjects)?;
    let table = Table {
        runtimes,
        columns,
        expected,
    };
    let good = table.show();
    table.save(&root)?;
    println!("matrix: {}", ui::seconds(start.elapsed()));
    println!("{}", table.summary());
    if !good {
        bail!("the matrix differs from tests/jax/expected.txt");
    }
    Ok(())
}

/// Refuses to start where the disk cannot hold what is still to be fetched.
fn check_space(versions: &[String]) -> Result<()> {
    let cache = Cache::open()?;
    let missing = versions
        .iter()
        .filter(|version| !venv::is_known(&cache, venv::JAXLIB, version))
        .count();
    let need = BYTES_A_JAXLIB * u64::try_from(missing).unwrap_or(u64::MAX);
    let free = cache.free_bytes()?;
    if free < need {
        bail!(
            "{missing} jaxlibs are still to be fetched and need {} GB, but {} has {:.1} GB free: \
             free some space, or move the cache with XLA_FFI_CACHE",
            need >> 30,
            cache.root().display(),
            free as f64 / f64::from(1 << 30)
        );
    }
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
}

impl Subjects {
    fn build(root: &Path) -> Result<Self> {
        libraries::build_rust(root)?;
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
        })
    }
}

/// One result: the cell, and what was said.
#[derive(Clone, Debug)]
struct Outcome {
    cell: Cell,
    message: String,
}

/// The cells of one jaxlib by library and feature, in the order of the driver; or why there are none.
#[derive(Debug)]
enum Column {
    Cells {
        order: Vec<(String, String)>,
        cells: BTreeMap<(String, String), Outcome>,
    },
    NoWheel(String),
    Failed(String),
}

/// Runs the jaxlibs side by side.
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
                    let (version, revision) = (&runtime.version, runtime.revision);
                    ui::note(format_args!("jaxlib {version} ({revision}): started"));
                    let column = column(root, runtime, subjects);
                    ui::note(format_args!(
                        "jaxlib {} ({}): {}, {}",
                        runtime.version,
                        runtime.revision,
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

impl Column {
    fn brief(&self) -> String {
        match self {
            Self::Cells { cells, .. } => format!("{} cells", cells.len()),
            Self::NoWheel(why) | Self::Failed(why) => why.clone(),
        }
    }
}

struct Table {
    runtimes: Vec<Runtime>,
    columns: Vec<Column>,
    expected: Expected,
}

impl Table {
    /// Every row: those that ran, in the driver's order, then those that are only expected.
    fn rows(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = Vec::new();
        for (library, _) in LIBRARIES {
            let mut of_library: Vec<String> = Vec::new();
            for column in &self.columns {
                if let Column::Cells { order, .. } = column {
                    for (_, feature) in order.iter().filter(|(of, _)| of == library) {
                        if !of_library.contains(feature) {
                            of_library.push(feature.clone());
                        }
                    }
                }
            }
            for feature in self.expected.features(library) {
                if !of_library.iter().any(|known| known == feature) {
                    of_library.push(feature.to_owned());
                }
            }
            rows.extend(
                of_library
                    .into_iter()
                    .map(|feature| (library.to_owned(), feature)),
            );
        }
        rows
    }

    /// What a cell is to show, and the complaint where it differs from what is expected.
    fn judge(
        &self,
        row: &(String, String),
        runtime: &Runtime,
        column: &Column,
    ) -> (&'static str, Option<String>) {
        let Column::Cells { cells, .. } = column else {
            return ("-", None);
        };
        let wanted = self.expected.cell(&row.0, &row.1, runtime);
        match (cells.get(row), wanted) {
            (Some(got), Some((wanted, words))) if got.cell.is_expected(wanted) => {
                let said = got.message.contains(words);
                let complaint =
                    || format!("absent for another reason than {words:?}: {}", got.message);
                if said {
                    (got.cell.name(), None)
                } else {
                    ("FAIL", Some(complaint()))
                }
            }
            (Some(got), Some((wanted, _))) => (
                "FAIL",
                Some(format!(
                    "expected {}, got {}: {}",
                    wanted.name(),
                    got.cell.name(),
                    got.message
                )),
            ),
            (Some(got), None) => (
                "FAIL",
                Some(format!(
                    "not in expected.txt; got {}: {}",
                    got.cell.name(),
                    got.message
                )),
            ),
            (None, _) => (
                "FAIL",
                Some("expected.txt lists it, but no driver ran it".to_owned()),
            ),
        }
    }

    /// Prints the table and everything that is not as expected; tells whether all is.
    fn show(&self) -> bool {
        let rows = self.rows();
        let width = rows
            .iter()
            .map(|(_, feature)| feature.len())
            .max()
            .unwrap_or(0);
        let mut complaints = Vec::new();
        let mut absences: BTreeMap<(String, String), String> = BTreeMap::new();
        for (library, title) in LIBRARIES {
            println!("\n{title}");
            print!("{:width$}", "");
            for runtime in &self.runtimes {
                print!("  {:>7}", runtime.version);
            }
            print!("\n{:width$}", "");
            for runtime in &self.runtimes {
                print!("  {:>7}", runtime.revision.name());
            }
            println!();
            for row in rows.iter().filter(|(of, _)| of == library) {
                print!("{:width$}", row.1);
                for (runtime, column) in self.runtimes.iter().zip(&self.columns) {
                    let (shown, complaint) = self.judge(row, runtime, column);
                    print!("  {shown:>7}");
                    if let Some(complaint) = complaint {
                        complaints.push(format!(
                            "{library}, {}, jaxlib {}: {complaint}",
                            row.1, runtime.version
                        ));
                    } else if let Column::Cells { cells, .. } = column
                        && let Some(outcome) = cells.get(row)
                        && outcome.cell != Cell::Ok
                    {
                        let key = (
                            format!("{library}, {}", row.1),
                            outcome.cell.name().to_owned(),
                        );
                        let said: String = outcome.message.chars().take(200).collect();
                        absences
                            .entry(key)
                            .or_insert_with(|| format!("jaxlib {}: {said}", runtime.version));
                    }
                }
                println!();
            }
        }
        println!("\nwhat was said, once a row:");
        for ((row, cell), said) in &absences {
            println!("  {row}, {cell} on {said}");
        }
        for (runtime, column) in self.runtimes.iter().zip(&self.columns) {
            match column {
                Column::NoWheel(why) => println!("no wheel, jaxlib {}: {why}", runtime.version),
                Column::Failed(why) => println!("FAIL, jaxlib {}: {why}", runtime.version),
                Column::Cells { .. } => {}
            }
        }
        for complaint in &complaints {
            println!("FAIL: {complaint}");
        }
        let lost = |column: &Column| match column {
            Column::Failed(_) => true,
            // A developer's machine may lack a Python; CI may not.
            Column::NoWheel(_) => in_ci(),
            Column::Cells { .. } => false,
        };
        let ran = self
            .columns
            .iter()
            .any(|column| matches!(column, Column::Cells { .. }));
        complaints.is_empty() && ran && !self.columns.iter().any(lost)
    }

    /// One plain line with all counts.
    fn summary(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.rows() {
            for (runtime, column) in self.runtimes.iter().zip(&self.columns) {
                *counts
                    .entry(self.judge(&row, runtime, column).0)
                    .or_default() += 1;
            }
        }
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        let columns = |wanted: fn(&Column) -> bool| {
            self.columns.iter().filter(|column| wanted(column)).count()
        };
        format!(
            "{} ok, {} absent, {} moot, {} refused, {} wrong, {} crash, {} FAIL; {} of {} jaxlibs ran, {} without a wheel",
            count("ok"),
            count("absent"),
            count("moot"),
            count("refused"),
            count("wrong"),
            count("crash"),
            count("FAIL") + columns(|column| matches!(column, Column::Failed(_))),
            columns(|column| matches!(column, Column::Cells { .. })),
            self.columns.len(),
            columns(|column| matches!(column, Column::NoWheel(_)))
        )
    }

    /// Keeps all cells with their messages for whoever wants to look closer.
    fn save(&self, root: &Path) -> Result<()> {
        let mut all = Vec::new();
        for (runtime, column) in self.runtimes.iter().zip(&self.columns) {
            let Column::Cells { order, cells } = column else {
                continue;
            };
            for key in order {
                let Some(outcome) = cells.get(key) else {
                    continue;
                };
                all.push(serde_json::json!({
                    "jaxlib": runtime.version, "revision": runtime.revision.name(), "library": key.0,
                    "feature": key.1, "cell": outcome.cell.name(), "message": outcome.message,
                }));
            }
        }
        let path = root.join("target/xtask/matrix.json");
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        std::fs::write(&path, serde_json::to_string_pretty(&all)?)
            .with_context(|| path.display().to_string())?;
        println!("all messages: {}", path.display());
        Ok(())
    }
}

/// Whether this runs in CI, where everything listed has to be there.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI")
        .is_some_and(|value| !value.is_empty() && value != "false" && value != "0")
}
