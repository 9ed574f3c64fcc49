//! `cargo xtask test`: every check of the project. What does not need another runs beside it; the
//! folders of cargo's profiles are locked by who builds in them, so each has a lane of its own.

mod binaries;
mod jax;
mod material;

use crate::cargo::{build_examples, cargo};
use crate::counts::{Counts, Format};
use crate::examples::Built;
use crate::tally::{self, Log, Tally};
use crate::{book, cuda, features, gpu, jaxlibs, libraries, matrix, python};
use anyhow::{Context, Result, bail};
use material::Material;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Command line of `test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use the newest jaxlib of the package index, listed or not.
    #[arg(long)]
    latest: bool,
    /// The inner loop: what a minute or two can check. It says what it leaves out.
    #[arg(long, conflicts_with = "latest")]
    quick: bool,
    /// The drivers under tests/jax alone, all of them, on this jaxlib; `all` for the whole list; may be given several
    /// times.
    #[arg(long, value_name = "X.Y.Z", conflicts_with_all = ["latest", "quick"])]
    jaxlib: Vec<String>,
    /// The Python for them, where the first that has a wheel is not the one.
    #[arg(long, value_name = "3.N", requires = "jaxlib")]
    python: Option<String>,
}

/// What `--quick` leaves out besides the test programs that take long.
const NOT_QUICK: &str = "the features one by one, rustdoc, the tests in documentation, the properties \
    optimised, loom, JAX, GPU dry runs";

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = jaxlibs::root();
    let tally = Tally::new();
    if args.quick {
        let left_out = quick(&root, &tally);
        println!("left out: {NOT_QUICK}; the test programs {left_out}");
    } else if !args.jaxlib.is_empty() {
        jax::on(args, &root, &Shared::default(), &tally)?;
    } else {
        let shared = Shared::default();
        let (root, tally, shared) = (&root, &tally, &shared);
        std::thread::scope(|scope| {
            scope.spawn(|| shared.fetch(args.latest, tally));
            scope.spawn(|| debug_lane(root, shared, tally));
            scope.spawn(|| release_lane(root, shared, tally));
            scope.spawn(|| loom(root, tally));
            jax::lane(root, shared, tally);
        });
    }
    if !tally.finish(matrix::in_ci()) {
        bail!("not all checks passed");
    }
    Ok(())
}

/// What one lane makes and others wait for. A part that failed is there too, empty.
#[derive(Debug, Default)]
struct Shared {
    material: OnceLock<Material>,
    /// The Rust examples are built.
    rust: OnceLock<()>,
    /// The libraries of the examples, as the drivers take them.
    examples: OnceLock<Vec<String>>,
}

impl Shared {
    fn fetch(&self, latest: bool, tally: &Tally) {
        let mut fetched = Material::default();
        tally.wide("downloads", |log| {
            fetched = Material::fetch(latest, log)?;
            Ok(Counts::one(true))
        });
        let _ = self.material.set(fetched);
    }
}

/// What cargo's folder for debug builds is needed for, one after the other.
fn debug_lane(root: &Path, shared: &Shared, tally: &Tally) {
    format(root, tally);
    old_python(root, tally);
    clippy(root, tally);
    tally.work("headers", |log| headers(root, log));
    tally.work("features", |log| features::check(root, log));
    tally.step(
        "rustdoc",
        Format::Whole,
        cargo(root)
            .args(["doc", "--quiet", "--workspace", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    );
    // One compiler for the GPU's kernels in all builds from here on.
    let material = shared.material.wait();
    tally.work("book", |log| match (&material.venv, &material.for_book) {
        (Some(venv), Some(packages)) => book::build(root, venv, packages, log),
        _ => Ok(Counts {
            skips: vec!["book: no mkdocs, see the step downloads".into()],
            ..Counts::default()
        }),
    });
    let mut built = vec![];
    tally.work("build of the tests", |log| {
        let mut command = cargo(root);
        command.args(["test", "--workspace"]);
        binaries::build(command, &mut built, log)
    });
    let mut examples = vec![];
    tally.work("examples in C and C++", |_| {
        shared.rust.wait();
        examples = Built::new(root)?.arguments()?;
        Ok(Counts::one(true))
    });
    let _ = shared.examples.set(examples);
    tally.wide("tests", |_| {
        let folder = libraries::rust_folder(root).display().to_string();
        let environment = [("XLA_FFI_RUST_EXAMPLES", folder.as_str())];
        binaries::run_all(root, &built, material, &environment, tally)
    });
    tally.work("tests in documentation", |log| {
        let mut command = cargo(root);
        command.args(["test", "--workspace", "--doc", "--no-fail-fast"]);
        material.name_in(&mut command);
        tally::run_some(Format::Libtest, "documentation", &mut command, log)
    });
}

/// What cargo's folder for release builds is needed for.
fn release_lane(root: &Path, shared: &Shared, tally: &Tally) {
    tally.step("Rust examples", Format::Whole, &mut build_examples(root));
    let _ = shared.rust.set(());
    let mut built = vec![];
    tally.work("build of the properties", |log| {
        binaries::build(properties(root), &mut built, log)
    });
    let material = shared.material.wait();
    // The targets of `fuzz/` go on where these end.
    let cases = if matrix::in_ci() { "200000" } else { "20000" };
    tally.wide(&format!("properties, {cases} cases"), |_| {
        binaries::run_all(root, &built, material, &[("XLA_FFI_CASES", cases)], tally)
    });
    gpu_dry_runs(root, tally);
}

/// What a warm checkout answers in a minute or two; the test programs that are left out.
fn quick(root: &Path, tally: &Tally) -> String {
    format(root, tally);
    old_python(root, tally);
    tally.work("headers", |log| headers(root, log));
    clippy(root, tally);
    let mut material = Material::default();
    tally.wide("downloads", |log| {
        material = Material::fetch(false, log)?;
        Ok(Counts::one(true))
    });
    let (mut built, mut left_out) = (vec![], vec![]);
    tally.work("build of the tests", |log| {
        let mut command = cargo(root);
        command.args(["test", "--workspace"]);
        let counts = binaries::build(command, &mut built, log);
        let (long, short): (Vec<_>, Vec<_>) = built.drain(..).partition(binaries::is_long);
        built = short;
        left_out.extend(long.iter().map(|binary| binary.name().to_owned()));
        counts
    });
    tally.wide("tests", |_| {
        binaries::run_all(root, &built, &material, &[], tally)
    });
    left_out.join(", ")
}

fn format(root: &Path, tally: &Tally) {
    tally.step(
        "format",
        Format::Whole,
        cargo(root).args(["fmt", "--all", "--check"]),
    );
}

/// The loader's files are Python of the oldest version at hand: the drivers run on a newer one, whose syntax is wider.
fn old_python(root: &Path, tally: &Tally) {
    tally.work("the loader in an older Python", |log| {
        let pythons = python::all()?;
        let oldest = pythons.iter().min_by_key(|python| python.minor);
        let Some(oldest) = oldest.filter(|python| python.minor < python::MINORS[0]) else {
            return Ok(Counts {
                skips: vec!["the loader in an older Python: no Python 3.11 is here".to_owned()],
                ..Counts::default()
            });
        };
        let program = "import sys, pathlib\n\
                       for file in sorted(pathlib.Path(sys.argv[1]).rglob('*.py')):\n    \
                           compile(file.read_bytes(), str(file), 'exec')\n";
        let mut command = python::Python::command(&oldest.exe);
        command.args(["-c", program]).arg(root.join("python"));
        tally::run(
            Format::Whole,
            "the loader in an older Python",
            &mut command,
            log,
        )
    });
}

fn clippy(root: &Path, tally: &Tally) {
    tally.step(
        "clippy",
        Format::Whole,
        cargo(root)
            .args(["clippy", "--quiet", "--workspace", "--all-targets"])
            .args(["--", "-D", "warnings"]),
    );
}

/// What a GPU machine would run, on this one; a counted skip where there is no nvcc.
fn gpu_dry_runs(root: &Path, tally: &Tally) {
    if cuda::at_hand().is_none() {
        tally.work("GPU dry run", |_| {
            Ok(Counts {
                skips: vec!["GPU dry run: no nvcc, neither here nor from the package index".into()],
                ..Counts::default()
            })
        });
        return;
    }
    let mut runs = Vec::new();
    tally.work("GPU examples", |_| {
        runs = gpu::dry_runs(root)?;
        Ok(Counts::one(true))
    });
    for (name, mut command) in runs {
        let format = match name {
            "test" => Format::Driver,
            _ => Format::Whole,
        };
        tally.step(&format!("GPU dry run, {name}"), format, &mut command);
    }
}

/// The property tests again, optimised, and what holds of optimised builds alone.
fn properties(root: &Path) -> Command {
    let mut command = cargo(root);
    command
        .args(["test", "--release"])
        .args(["-p", "xla-ffi-benches", "-p", "xla-ffi-benches-embedded"])
        .args(["--test", "allocations", "--test", "embedded"])
        .args(["-p", "xla-ffi-runtime", "--test", "properties"])
        .args(["-p", "xla-ffi", "--test", "frames"]);
    command
}

/// Every order in which threads can meet at locks and atomics of ours, in a folder of its own: the flag
/// would rebuild everything.
fn loom(root: &Path, tally: &Tally) {
    let mut flags = std::env::var_os("RUSTFLAGS").unwrap_or_default();
    flags.push(" --cfg loom");
    let mut command = cargo(root);
    command
        .args(["test", "-p", "xla-ffi", "-p", "xla-ffi-runtime", "--lib"])
        .arg("--target-dir")
        .arg(root.join("target/loom"))
        .arg("loom")
        .env("RUSTFLAGS", flags);
    tally.work("loom", |log| {
        tally::run_some(Format::Libtest, "loom", &mut command, log)
    });
}

/// The committed headers are what the generator writes.
fn headers(root: &Path, log: &mut Log) -> Result<Counts> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.current_dir(root).args(["headers", "--check"]);
    tally::run(Format::Whole, "headers", &mut command, log)
}
