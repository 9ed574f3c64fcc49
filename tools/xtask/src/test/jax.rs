//! Runs the drivers in `tests/jax`, and the tests of the loader for TensorFlow.

use super::{Args, Shared};
use crate::cargo::python_driver;
use crate::examples::Built;
use crate::tally::{self, Log, Outcome, Tally};
use crate::uv::NoWheel;
use crate::venv::{self, Venv};
use crate::{adopters, libraries, matrix};
use anyhow::{Context, Result};
use std::path::Path;

/// The drivers of the plain tests, which run without `--all`.
const PLAIN: [&str; 5] = [
    "examples.py",
    "loader.py",
    "errors.py",
    "signatures.py",
    "gradients.py",
];

/// The drivers that run only with `--all` or `--jaxlib`. They run on the newest listed jaxlib, or on the jaxlibs of
/// `--jaxlib`.
const OTHERS: [&str; 13] = [
    CHECK,
    "self_describing.py",
    "exports.py",
    "models.py",
    "inline.py",
    "python_signatures.py",
    "values.py",
    "reload.py",
    "behaviours.py",
    "batches.py",
    "derived_calls.py",
    "sharding.py",
    "record.py",
];

/// The drivers for the oldest listed jaxlib, whose results depend on the version of jax. `cargo xtask matrix` tests
/// each feature on each jaxlib.
const ON_OLDEST: [&str; 8] = [
    "loader.py",
    "signatures.py",
    "values.py",
    "exports.py",
    "gradients.py",
    "batches.py",
    "sharding.py",
    "record.py",
];

/// The driver for concurrent first calls, whose results depend on the copy of XLA. The driver runs on the oldest and
/// the newest listed jaxlib.
const RACES: &str = "races.py";

/// The driver for `xla_ffi.check`. Most of its tests have the same result on every jaxlib.
const CHECK: &str = "check.py";

/// The TensorFlow version for the tests of the loader for TensorFlow. `cargo xtask matrix` tests other versions.
const TENSORFLOW: (&str, &str) = ("tensorflow-cpu", "2.21.0");

/// Runs all drivers of `tests/jax`, and no other tests, on each jaxlib that `--jaxlib` names.
pub(super) fn on(args: &Args, root: &Path, shared: &Shared, tally: &Tally) -> Result<()> {
    let versions = venv::expand(&args.jaxlib)?;
    tally::note(format_args!(
        "the drivers alone, on {}",
        versions.join(", ")
    ));
    shared.fetch(false, tally);
    tally.wide("libraries", |_| {
        libraries::build_rust(root)?;
        libraries::build_cli(root)?;
        let _ = shared.rust.set(());
        let _ = shared.examples.set(Built::new(root)?.arguments()?);
        Ok(vec![])
    });
    let examples = shared
        .examples
        .get()
        .context("the libraries were not built")?;
    std::thread::scope(|scope| {
        for version in &versions {
            for driver in PLAIN.into_iter().chain(OTHERS).chain([RACES]) {
                let jaxlib = (version.as_str(), args.python.as_deref());
                scope.spawn(move || {
                    on_named(driver, jaxlib, false, (root, shared, examples), tally);
                });
            }
        }
    });
    Ok(())
}

/// Runs the JAX drivers of a complete run concurrently.
pub(super) fn lane(root: &Path, all: bool, shared: &Shared, tally: &Tally) {
    let Some(venv) = &shared.material.wait().venv else {
        return;
    };
    shared.rust.wait();
    let examples = shared.examples.wait();
    let newest = |driver: &str| {
        let name = format!("JAX {driver}");
        tally.work(&name, |log| {
            let mut command = python_driver(root, venv, driver);
            command.args(examples);
            // inline.py builds a library with cargo and needs the compiled dependencies of the examples.
            command.env("CARGO_TARGET_DIR", root.join("target"));
            shared.material.wait().name_in(&mut command);
            tally::drive(&name, &mut command, log)
        });
    };
    let on = |driver: &str, jaxlib: &str| {
        on_named(
            driver,
            (jaxlib, None),
            true,
            (root, shared, examples),
            tally,
        );
    };
    let listed = venv::listed();
    let (oldest, newest_jaxlib) = (&listed[0], &listed[listed.len() - 1]);
    let drivers = PLAIN.into_iter().chain(OTHERS);
    std::thread::scope(|scope| {
        for driver in drivers.filter(|driver| all || PLAIN.contains(driver)) {
            scope.spawn(move || newest(driver));
        }
        if !all {
            return;
        }
        scope.spawn(|| on(RACES, newest_jaxlib));
        for driver in ON_OLDEST.into_iter().chain([RACES]) {
            scope.spawn(move || on(driver, oldest));
        }
        scope.spawn(|| {
            tally.work("TensorFlow tf_loader.py", |log| {
                tensorflow(root, examples, log)
            });
        });
        scope.spawn(|| adopters::quick(root, tally));
    });
}

/// Runs a driver on the given jaxlib and Python. Without a given Python, uses the first Python that has a wheel.
///
/// If `beside` is set, tests with the same result on every jaxlib are skipped, because the complete run includes them
/// on a different jaxlib.
fn on_named(
    driver: &str,
    (jaxlib, python): (&str, Option<&str>),
    beside: bool,
    (root, shared, examples): (&Path, &Shared, &[String]),
    tally: &Tally,
) {
    let name = format!("JAX {driver}, jaxlib {jaxlib}");
    tally.work(&name, |log| {
        let venv = match python {
            Some(python) => venv::exactly_on(jaxlib, python)?,
            None => venv::exactly(jaxlib)?,
        };
        let mut command = python_driver(root, &venv, driver);
        shared.material.wait().for_older(&mut command);
        if driver == CHECK && beside {
            command.arg("--in-jax");
        }
        command.args(examples);
        tally::drive(&name, &mut command, log)
    });
}

/// Runs the tests of the loader for TensorFlow.
fn tensorflow(root: &Path, examples: &[String], log: &mut Log) -> Outcome {
    let (package, version) = TENSORFLOW;
    let venv: Venv = match venv::with(package, version) {
        Err(error) if error.is::<NoWheel>() => {
            return Ok(vec![format!("TensorFlow tf_loader.py: {error}")]);
        }
        venv => venv?,
    };
    let mut command = matrix::hosts::tensorflow(root, &venv.python, "tf_loader.py");
    command.arg(libraries::rust_folder(root)).args(examples);
    tally::drive("TensorFlow", &mut command, log)
}
