//! What runs in JAX: the drivers under `tests/jax`, and the loader for TensorFlow.

use super::{Args, Shared};
use crate::cargo::python_driver;
use crate::counts::{Counts, Format};
use crate::examples::Built;
use crate::tally::{self, Log, Tally};
use crate::uv::NoWheel;
use crate::venv::{self, Venv};
use crate::{jaxlibs, libraries, matrix, ui};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// The drivers, which all run on the newest listed jaxlib, and on those that `--jaxlib` asks for.
const DRIVERS: [&str; 20] = [
    "declared.py",
    "exports.py",
    "models.py",
    "needs.py",
    "inline.py",
    "given.py",
    "loader.py",
    "errors.py",
    "signatures.py",
    "values.py",
    "reload.py",
    "examples.py",
    "behaviours.py",
    "gradients.py",
    "batches.py",
    "standins.py",
    "sharding.py",
    "record.py",
    CHECK,
    "skew.py",
];

/// Those of them that always run on the oldest listed jaxlib too: what they test hangs on jax's own ways.
const OLDEST_DRIVERS: [&str; 18] = [
    "declared.py",
    "loader.py",
    "skew.py",
    CHECK,
    "record.py",
    "exports.py",
    "models.py",
    "needs.py",
    "inline.py",
    "values.py",
    "reload.py",
    "signatures.py",
    "errors.py",
    "given.py",
    "gradients.py",
    "batches.py",
    "standins.py",
    "sharding.py",
];

/// Those that always run on [`MIDDLE`] as well.
const MIDDLE_DRIVERS: [&str; 16] = [
    "declared.py",
    "loader.py",
    "skew.py",
    CHECK,
    "record.py",
    "signatures.py",
    "errors.py",
    "given.py",
    "inline.py",
    "exports.py",
    "models.py",
    "needs.py",
    "gradients.py",
    "batches.py",
    "standins.py",
    "sharding.py",
];

/// A jaxlib between the oldest and the newest, whose jax has the public `jax.ffi`.
const MIDDLE: &str = "0.5.1";

/// First calls of many threads hang on the copy of XLA: these run on the oldest, a middle and the newest
/// listed jaxlib.
const RACES: &str = "races.py";

/// `xla_ffi.check`, which says much that is the same on every jaxlib.
const CHECK: &str = "check.py";

/// The TensorFlow on which its loader is tested; `cargo xtask matrix` runs the rows of hosts on others too.
const TENSORFLOW: (&str, &str) = ("tensorflow-cpu", "2.21.0");

/// Every driver on each of these jaxlibs, and nothing else.
pub(super) fn on(args: &Args, root: &Path, shared: &Shared, tally: &Tally) -> Result<()> {
    let versions = jaxlibs::expand(&args.jaxlib)?;
    ui::note(format_args!(
        "the drivers alone, on {}",
        versions.join(", ")
    ));
    shared.fetch(false, tally);
    tally.wide("libraries", |_| {
        libraries::build_rust(root)?;
        libraries::build_cli(root)?;
        let _ = shared.rust.set(());
        let _ = shared.examples.set(Built::new(root)?.arguments()?);
        Ok(Counts::one(true))
    });
    let examples = shared
        .examples
        .get()
        .context("the libraries were not built")?;
    std::thread::scope(|scope| {
        for version in &versions {
            for driver in DRIVERS.into_iter().chain([RACES]) {
                let on = On {
                    jaxlib: version,
                    python: args.python.as_deref(),
                    beside: false,
                };
                scope.spawn(move || on.run(driver, root, shared, examples, tally));
            }
        }
    });
    Ok(())
}

/// The JAX drivers of a whole run, each beside the others.
pub(super) fn lane(root: &Path, shared: &Shared, tally: &Tally) {
    let Some(venv) = &shared.material.wait().venv else {
        tally.work("JAX", |_| {
            bail!("no environment with jax: see the step downloads")
        });
        return;
    };
    shared.rust.wait();
    let examples = shared.examples.wait();
    let listed = &jaxlibs::listed();
    std::thread::scope(|scope| {
        for driver in DRIVERS {
            scope.spawn(move || {
                let name = format!("JAX {driver}");
                tally.work(&name, |log| {
                    let mut command = python_driver(root, venv, driver);
                    command.args(examples);
                    // What inline.py builds with cargo needs the crates that the examples are built of.
                    command.env("CARGO_TARGET_DIR", root.join("target"));
                    shared.material.wait().name_in(&mut command);
                    tally::run_some(Format::Driver, &name, &mut command, log)
                });
            });
        }
        for version in [listed.first(), listed.get(listed.len() / 2), listed.last()] {
            let version = version.map_or("none", |name| name);
            let on = On {
                jaxlib: version,
                python: None,
                beside: true,
            };
            scope.spawn(move || on.run(RACES, root, shared, examples, tally));
        }
        scope.spawn(move || {
            tally.work("TensorFlow tf_loader.py", |log| {
                tensorflow(root, examples, log)
            })
        });
        let oldest = listed.first().map_or("none", |name| name);
        let older_ones = OLDEST_DRIVERS.map(|driver| (driver, oldest));
        let middle = MIDDLE_DRIVERS.map(|driver| (driver, MIDDLE));
        for (driver, jaxlib) in older_ones.into_iter().chain(middle) {
            let on = On {
                jaxlib,
                python: None,
                beside: true,
            };
            scope.spawn(move || on.run(driver, root, shared, examples, tally));
        }
    });
}

/// A jaxlib that is named, and the Python for it.
#[derive(Clone, Copy)]
struct On<'a> {
    jaxlib: &'a str,
    /// The first that has a wheel where none is named.
    python: Option<&'a str>,
    /// Beside a whole run: without what is the same on every jaxlib.
    beside: bool,
}

impl On<'_> {
    fn run(self, driver: &str, root: &Path, shared: &Shared, examples: &[String], tally: &Tally) {
        let Self {
            jaxlib,
            python,
            beside,
        } = self;
        let name = format!("JAX {driver}, jaxlib {jaxlib}");
        tally.work(&name, |log| {
            let venv = match python {
                Some(python) => venv::exactly_on(jaxlib, python)?,
                None => venv::exactly(jaxlib)?,
            };
            let mut command = python_driver(root, &venv, driver);
            shared.material.wait().for_older(&mut command);
            if driver == RACES
                && jaxlibs::listed()
                    .last()
                    .is_some_and(|newest| newest == jaxlib)
            {
                command.arg("--ends");
            }
            if driver == CHECK && beside {
                command.arg("--in-jax");
            }
            command.args(examples);
            tally::run_some(Format::Driver, &name, &mut command, log)
        });
    }
}

/// The loader for TensorFlow.
fn tensorflow(root: &Path, examples: &[String], log: &mut Log) -> Result<Counts> {
    let (package, version) = TENSORFLOW;
    let venv: Venv = match venv::with(package, version) {
        Err(error) if error.is::<NoWheel>() => {
            return Ok(Counts {
                skips: vec![format!("TensorFlow tf_loader.py: {error}")],
                ..Counts::default()
            });
        }
        venv => venv?,
    };
    let mut command = matrix::hosts::tensorflow(root, &venv.python, "tf_loader.py");
    command.arg(libraries::rust_folder(root)).args(examples);
    tally::run_some(Format::Driver, "TensorFlow", &mut command, log)
}
