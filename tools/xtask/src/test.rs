//! `cargo xtask test` runs a contributor's tests; with `--all`, every check of the project.
//!
//! Independent steps run concurrently. Cargo locks the build folder of each profile, so the steps of each profile run
//! in sequence, in one lane.

mod binaries;
mod jax;

use crate::cargo::{build_examples, cargo, metadata};
use crate::examples::Built;
use crate::material::Material;
use crate::tally::{self, Log, Outcome, Tally};
use crate::{folders, gpu, libraries, matrix, python, uv};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Command line of `test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run every check, except for steps that just passed for the same state of the checkout.
    #[arg(long)]
    all: bool,
    /// Run only the drivers in tests/jax, all of them, on this jaxlib; `all` for the whole list; may be repeated.
    #[arg(long, value_name = "X.Y.Z", conflicts_with = "all")]
    jaxlib: Vec<String>,
    /// Python version for --jaxlib. Default: the first that has a wheel.
    #[arg(long, value_name = "3.N", requires = "jaxlib")]
    python: Option<String>,
}

/// The results of steps that several lanes use. If a step fails, its result is empty.
#[derive(Debug, Default)]
struct Shared {
    material: OnceLock<Material>,
    /// Set after the Rust examples are built.
    rust: OnceLock<()>,
    /// The libraries of the examples, as command-line arguments of the drivers.
    examples: OnceLock<Vec<String>>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = &folders::checkout();
    let shared = &Shared::default();
    let tally = match args.jaxlib.is_empty() {
        true => Tally::noting(root, args.all),
        false => Tally::new(),
    };
    if args.jaxlib.is_empty() {
        let tally = &tally;
        std::thread::scope(|scope| {
            scope.spawn(|| shared.fetch(args.all, tally));
            scope.spawn(|| debug_lane(root, args.all, shared, tally));
            scope.spawn(|| release_lane(root, args.all, shared, tally));
            if args.all {
                scope.spawn(|| loom(root, tally));
            }
            jax::lane(root, args.all, shared, tally);
        });
    } else {
        jax::on(args, root, shared, &tally)?;
    }
    tally.finish(args.all && matrix::in_ci())
}

impl Shared {
    fn fetch(&self, all: bool, tally: &Tally) {
        let mut fetched = Material::default();
        tally.wide("downloads", |log| {
            fetched = Material::fetch(all, log)?;
            Ok(vec![])
        });
        let _ = self.material.set(fetched);
    }
}

/// Runs the steps that use cargo's build folder for debug builds.
fn debug_lane(root: &Path, all: bool, shared: &Shared, tally: &Tally) {
    tally.step("format", cargo(root).args(["fmt", "--all", "--check"]));
    let mut clippy = cargo(root);
    clippy.args(["clippy", "--quiet", "--workspace", "--", "-D", "warnings"]);
    tally.step("clippy", &mut clippy);
    tally.work("headers", |log| {
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        command.current_dir(root).args(["headers", "--check"]);
        tally::run("headers", &mut command, log)
    });
    if all {
        old_python(root, tally);
        tally.work("workflows", |log| workflows(root, log));
        tally.work("features", |log| each_feature_alone(root, log));
        let mut doc = cargo(root);
        doc.args(["doc", "--quiet", "--workspace", "--no-deps"]);
        doc.env("RUSTDOCFLAGS", "-D warnings");
        tally.step("rustdoc", &mut doc);
    }
    // All builds after this line use the same compiler for GPU kernels.
    let material = shared.material.wait();
    let mut built = vec![];
    tally.wide("build of the tests", |log| {
        binaries::build(root, all, &mut built, log)
    });
    tally.wide("examples in C and C++", |_| {
        shared.rust.wait();
        let _ = shared.examples.set(Built::new(root)?.arguments()?);
        Ok(vec![])
    });
    let _ = shared.examples.set(vec![]);
    let folder = libraries::rust_folder(root).display().to_string();
    let environment = [("XLA_FFI_RUST_EXAMPLES", folder.as_str())];
    binaries::run_all(root, &built, material, &environment, tally);
    if all {
        let mut command = cargo(root);
        command.args(["test", "--workspace", "--doc", "--no-fail-fast"]);
        material.name_in(&mut command);
        tally.step("tests in documentation", &mut command);
    }
}

/// Runs the steps that use cargo's build folder for release builds.
fn release_lane(root: &Path, all: bool, shared: &Shared, tally: &Tally) {
    tally.wide("Rust examples", |log| {
        tally::run("Rust examples", &mut build_examples(root), log)
    });
    let _ = shared.rust.set(());
    if !all {
        return;
    }
    // These tests are valid only for optimized builds, in which calls do not allocate.
    let mut optimised = cargo(root);
    optimised
        .args(["test", "--release", "--no-fail-fast"])
        .args(["-p", "xla-ffi-benches", "-p", "xla-ffi-benches-embedded"])
        .args(["--test", "allocations", "--lib"]);
    tally.step("optimised tests", &mut optimised);
    shared.material.wait();
    if uv::nvcc_at_hand().is_none() {
        tally.work("GPU dry run", |_| {
            Ok(vec!["GPU dry run: no nvcc".to_owned()])
        });
        return;
    }
    if tally.has_passed("GPU dry run, bench") {
        return;
    }
    let mut runs = Vec::new();
    tally.wide("GPU examples", |_| {
        runs = gpu::dry_runs(root)?;
        Ok(vec![])
    });
    for (name, mut command) in runs {
        let name = format!("GPU dry run, {name}");
        tally.work(&name, |log| match name.ends_with("test") {
            true => tally::drive(&name, &mut command, log),
            false => tally::run(&name, &mut command, log),
        });
    }
}

/// Compiles the loader with Python 3.11. The drivers run on a newer Python, which supports more syntax.
fn old_python(root: &Path, tally: &Tally) {
    const NAME: &str = "the loader in Python 3.11";
    tally.work(NAME, |log| {
        let pythons = python::all()?;
        let Some(oldest) = pythons.iter().find(|python| python.minor == 11) else {
            return Ok(vec![format!("{NAME}: it is not installed")]);
        };
        let mut command = python::Python::command(&oldest.exe);
        python::keep_bytecode(&mut command);
        command
            .args(["-m", "compileall", "-q"])
            .arg(root.join("python"));
        tally::run(NAME, &mut command, log)
    });
}

/// Validates the action and every workflow with GitHub's schemas.
fn workflows(root: &Path, log: &mut Log) -> Outcome {
    let python = &python::all()?[0];
    let packages = uv::folder(python, &[uv::SCHEMAS], "check_jsonschema")?;
    let mut list = Command::new("git");
    list.args(["ls-files", "*.github/workflows/*.yml", "docs/ci/*.yml"]);
    let workflows = python::output(list.current_dir(root), "git ls-files")?;
    for (schema, files) in [
        ("vendor.github-workflows", workflows.as_str()),
        ("vendor.github-actions", "action.yml"),
    ] {
        let mut command = python::Python::command(&python.exe);
        command.args(["-m", "check_jsonschema", "--builtin-schema", schema]);
        command.args(files.lines()).current_dir(root);
        tally::run(schema, command.env("PYTHONPATH", &packages), log)?;
    }
    Ok(vec![])
}

/// Compiles each package that has features, first without features and then with each single feature.
///
/// Users enable single features, but builds of the workspace enable all features. Tests are excluded, because their
/// dependencies would enable features.
fn each_feature_alone(root: &Path, log: &mut Log) -> Outcome {
    for package in metadata(root)?.packages {
        let features = package.features.keys().filter(|name| *name != "default");
        let features: Vec<&str> = features.map(String::as_str).collect();
        if features.is_empty() {
            continue;
        }
        for feature in [&[""], &*features].concat() {
            let mut command = cargo(root);
            command.args(["check", "--quiet", "--package", &package.name]);
            command.args(["--no-default-features", "--features", feature]);
            let of = format!("{} with feature {feature:?} alone", package.name);
            tally::run(&of, &mut command, log)?;
        }
    }
    Ok(vec![])
}

/// Tests every interleaving of threads at the project's locks and atomics, with loom.
///
/// The compiler flag for loom would cause rebuilds, so loom has a separate build folder.
fn loom(root: &Path, tally: &Tally) {
    let mut flags = std::env::var_os("RUSTFLAGS").unwrap_or_default();
    flags.push(" --cfg loom");
    let mut command = cargo(root);
    command
        .args(["test", "-p", "xla-ffi", "-p", "xla-ffi-runtime", "--lib"])
        .args(["loom", "--target-dir", "target/loom"])
        .env("RUSTFLAGS", flags);
    tally.step("loom", &mut command);
}
