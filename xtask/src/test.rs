//! `cargo xtask test`: every check of the project, in the order in which failures are cheap.

use crate::cache::Cache;
use crate::cargo::{build_examples, cargo, python_driver};
use crate::examples::Built;
use crate::jaxlibs;
use crate::tally::{self, Counts, Format, Tally};
use crate::venv::{self, Venv};
use crate::wheel;
use crate::{circles, cuda, features, gpu, matrix};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_sys::JAXLIBS;

/// Command line of `test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use the newest jaxlib of the package index, listed or not.
    #[arg(long)]
    latest: bool,
}

/// The JAX drivers under `tests/jax`, in this order.
const DRIVERS: [&str; 5] = [
    "loader.py",
    "values.py",
    "reload.py",
    "examples.py",
    "behaviours.py",
];

/// Those of them that run on the oldest listed jaxlib too: what they test hangs on jax's own ways.
const OLDEST_DRIVERS: [&str; 2] = ["values.py", "reload.py"];

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = jaxlibs::root();
    let mut tally = Tally::default();
    tally.step(
        "format",
        Format::Whole,
        cargo(&root).args(["fmt", "--all", "--check"]),
    );
    tally.step(
        "clippy",
        Format::Whole,
        cargo(&root).args([
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
    );
    tally.work("features", || features::check(&root));
    tally.work("circles", || circles::check(&root));
    tally.step(
        "rustdoc",
        Format::Whole,
        cargo(&root)
            .args(["doc", "--quiet", "--workspace", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    );
    tally.step(
        "headers",
        Format::Whole,
        &mut xtask(&root, &["headers", "--check"])?,
    );

    let mut material = Material::default();
    tally.work("downloads", || {
        material = Material::fetch(args.latest)?;
        Ok(Counts::one(true))
    });
    tally.step("build", Format::Whole, &mut build_examples(&root));
    tally.work("cargo test", || {
        let mut command = cargo(&root);
        command.args(["test", "--workspace", "--no-fail-fast"]);
        cargo_tests(command, &material)
    });
    tally.work("properties", || {
        cargo_tests(properties(&root, matrix::in_ci()), &material)
    });
    tally.step("loom", Format::Libtest, &mut loom(&root));
    match &material.venv {
        None => tally.work("JAX", || {
            bail!("no environment with jax: see the step downloads")
        }),
        Some(venv) => {
            for driver in DRIVERS {
                tally.work(&format!("JAX {driver}"), || {
                    let mut command = python_driver(&root, venv, driver);
                    command.args(Built::new(&root)?.arguments()?);
                    tally::run(Format::Driver, &mut command)
                });
            }
            for driver in OLDEST_DRIVERS {
                tally.work(&format!("JAX {driver}, oldest jaxlib"), || {
                    let listed = jaxlibs::listed();
                    let oldest = listed.first().context("no jaxlib is listed")?;
                    let mut command = python_driver(&root, &venv::exactly(oldest)?, driver);
                    tally::run(Format::Driver, &mut command)
                });
            }
        }
    }
    gpu_dry_runs(&root, &mut tally);
    if !tally.finish() {
        bail!("not all checks passed");
    }
    Ok(())
}

/// What a GPU machine would run, on this one; a counted skip where there is no nvcc.
fn gpu_dry_runs(root: &Path, tally: &mut Tally) {
    if cuda::at_hand().is_none() {
        tally.work("GPU dry run", || {
            Ok(Counts {
                skips: vec!["GPU dry run: no nvcc, neither here nor from the package index".into()],
                ..Counts::default()
            })
        });
        return;
    }
    let mut runs = Vec::new();
    tally.work("GPU examples", || {
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

/// What the tests read that is not in the checkout.
#[derive(Debug, Default)]
struct Material {
    headers: Option<PathBuf>,
    libclang: Option<PathBuf>,
    pjrt_plugin: Option<PathBuf>,
    venv: Option<Venv>,
}

impl Material {
    fn fetch(latest: bool) -> Result<Self> {
        let cache = Cache::open()?;
        let venv = if latest {
            venv::latest()?
        } else {
            venv::newest()?
        };
        println!("JAX tests use {venv}");
        // Without it the kernels' tests are skipped, and say so.
        if let Err(error) = cuda::nvcc() {
            eprintln!("no nvcc: {error:#}");
        }
        for version in xla_ffi_abi::declared::witnesses(&JAXLIBS) {
            wheel::headers(version)?;
        }
        Ok(Self {
            headers: Some(wheel::headers_root(&cache)),
            libclang: Some(wheel::libclang()?),
            pjrt_plugin: pjrt_plugin()?,
            venv: Some(venv),
        })
    }

    fn name_in(&self, command: &mut Command) {
        if let Some(headers) = &self.headers {
            command.env("XLA_FFI_JAXLIB_HEADERS", headers);
        }
        if let Some(libclang) = &self.libclang {
            command.env("LIBCLANG_PATH", libclang);
        }
        if let Some(plugin) = &self.pjrt_plugin {
            command.env("XLA_FFI_PJRT_PLUGIN", plugin);
        }
        if let Some(venv) = &self.venv {
            command.env("XLA_FFI_PYTHON", &venv.python);
        }
    }
}

/// The PJRT plugin; none where the index has none for this machine, which tests count as skips.
fn pjrt_plugin() -> Result<Option<PathBuf>> {
    match wheel::pjrt_plugin() {
        Ok(plugin) => Ok(Some(plugin)),
        Err(error) if error.is::<wheel::NoWheel>() => {
            crate::ui::note(format_args!("{error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The property tests again, optimised, and in CI with a million cases; and what holds of optimised
/// builds alone.
fn properties(root: &Path, in_ci: bool) -> Command {
    let cases = if in_ci { "1000000" } else { "20000" };
    println!("{cases} cases for each property");
    let mut command = cargo(root);
    command
        .args(["test", "--release", "--no-fail-fast"])
        .args(["-p", "xla-ffi-benches", "--test", "allocations"])
        .args(["-p", "xla-ffi-runtime", "--test", "properties"])
        .args(["-p", "xla-ffi", "--test", "frames"])
        .args([
            "-p",
            "xla-ffi-abi",
            "-p",
            "xla-ffi-doctor",
            "--test",
            "hostile",
        ])
        .env("XLA_FFI_CASES", cases);
    command
}

/// Every order of the runtime's own locks, in a folder of its own: the flag would rebuild everything.
fn loom(root: &Path) -> Command {
    let mut flags = std::env::var_os("RUSTFLAGS").unwrap_or_default();
    flags.push(" --cfg loom");
    let mut command = cargo(root);
    command
        .args(["test", "-p", "xla-ffi-runtime", "--lib"])
        .arg("--target-dir")
        .arg(root.join("target/loom"))
        .arg("loom")
        .env("RUSTFLAGS", flags);
    command
}

/// Runs tests with what they read, and counts those that skip themselves.
fn cargo_tests(mut command: Command, material: &Material) -> Result<Counts> {
    let cache = Cache::open()?;
    let scratch = cache.scratch()?;
    let skips = scratch.path().join("skips");
    command.env("XLA_FFI_SKIPS", &skips);
    material.name_in(&mut command);
    let mut counts = tally::run(Format::Libtest, &mut command)?;
    if let Ok(text) = std::fs::read_to_string(&skips) {
        tally::own_skips(&mut counts, &text);
    }
    Ok(counts)
}

/// Another task of this program.
fn xtask(root: &Path, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.current_dir(root).args(arguments);
    Ok(command)
}
