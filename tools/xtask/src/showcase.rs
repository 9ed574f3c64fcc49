//! `cargo xtask showcase` tests the libraries in `examples/showcase/` as their users install them.
//!
//! The task builds the libraries, tests them on the embedded runtime, and installs their wheels in a fresh environment.
//! In this environment, the task runs the examples of the READMEs, the tests in JAX and the benchmarks.

use crate::cargo::cargo;
use crate::python::{self, Python};
use crate::tally::{self, Log, Outcome, Tally};
use crate::{folders, libraries, matrix, uv, venv};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Command line of `showcase`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run the checks of CI: the first two libraries, with one small size instead of the benchmark.
    #[arg(long)]
    quick: bool,
    /// Run only this library; may be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Redraw the pictures of the READMEs during the benchmarks.
    #[arg(long, conflicts_with = "quick")]
    pictures: bool,
}

/// The libraries in `examples/showcase/`. Each has the picture that its benchmark draws.
const LIBRARIES: [(&str, Option<&str>); 3] = [
    ("sparse_solve", Some("docs/times.svg")),
    ("neighbours", Some("docs/neighbours.svg")),
    ("images", None),
];

/// The number of libraries that `--quick` tests.
const QUICK: usize = 2;

/// The folders and programs of a run of this task.
struct Place {
    root: PathBuf,
    /// The build folder that the libraries share.
    target: PathBuf,
    /// The interpreter of the fresh environment.
    python: PathBuf,
    cli: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut chosen: Vec<_> = LIBRARIES.to_vec();
    if !args.only.is_empty() {
        chosen.retain(|(name, _)| args.only.iter().any(|only| only == name));
        let names = LIBRARIES.map(|(name, _)| name).join(", ");
        ensure!(chosen.len() == args.only.len(), "the libraries are {names}");
    } else if args.quick {
        chosen.truncate(QUICK);
    }
    let root = folders::checkout();
    let target = root.join("target/showcase");
    let place = Place {
        cli: libraries::build_cli(&root)?,
        python: target.join("environment/bin/python"),
        target,
        root,
    };
    let tally = Tally::new();
    tally.wide("a fresh environment", |log| place.environment(log));
    for (name, picture) in chosen {
        tally.wide(&format!("{name}, Rust"), |log| place.rust(name, log));
        tally.wide(&format!("{name}, wheel"), |log| place.wheel(name, log));
        tally.wide(&format!("{name}, JAX"), |log| place.jax(name, log));
        let mut bench = place.python(&place.project(name));
        bench.arg("bench.py");
        if args.quick {
            bench.arg("--quick");
        }
        if let Some(picture) = picture.filter(|_| args.pictures) {
            bench.args(["--svg", picture]);
        }
        tally.step(&format!("{name}, bench.py"), &mut bench);
    }
    tally.finish(matrix::in_ci())
}

impl Place {
    fn project(&self, name: &str) -> PathBuf {
        self.root.join("examples/showcase").join(name)
    }

    fn python(&self, folder: &Path) -> Command {
        let mut command = Python::command(&self.python);
        command
            .current_dir(folder)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("XLA_FFI_CLI", &self.cli)
            .env("JAX_PLATFORMS", "cpu")
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        python::keep_bytecode(&mut command);
        command
    }

    /// Creates an environment with the newest jaxlib, the loader, and the packages for tests and benchmarks.
    fn environment(&self, log: &mut Log) -> Outcome {
        let newest = venv::newest()?;
        let folder = self.target.join("environment");
        let _ = fs::remove_dir_all(&folder);
        let mut make = Python::command(&newest.base()?.exe);
        make.args(["-m", "venv"]).arg(&folder);
        tally::run("python -m venv", &mut make, log)?;
        let version = &newest.version;
        let jax = [format!("jax=={version}"), format!("jaxlib=={version}")];
        let tools = ["flatbuffers", "hatchling", "pillow", "pytest", "scipy"];
        let packages = [&jax.each_ref().map(String::as_str), &tools[..]].concat();
        uv::install(&self.python, None, &packages)?;
        // A benchmark makes a comparison with klujax if possible, because klujax does not have wheels for every
        // machine.
        if let Err(error) = uv::install(&self.python, None, &["klujax"]) {
            log.push_str(&format!("without klujax: {error:#}\n"));
        }
        let mut loader = self.python(&self.root);
        loader.args(["-m", "pip", "install", "--quiet", "--no-deps", "./python"]);
        tally::run("pip install", &mut loader, log)
    }

    /// Runs the format check, the release build, and the tests on the embedded runtime of one library.
    fn rust(&self, name: &str, log: &mut Log) -> Outcome {
        for arguments in [
            &["fmt", "--check"][..],
            &["build", "--release", "--locked"],
            &["test", "--release", "--locked", "--test", "embedded"],
        ] {
            let mut command = cargo(&self.project(name));
            command
                .args(arguments)
                .env("CARGO_TARGET_DIR", &self.target);
            let of = format!("{name}: cargo {}", arguments[0]);
            tally::run(&of, &mut command, log)?;
        }
        Ok(vec![])
    }

    /// Builds the wheel of a library, installs the wheel, and checks the wheel with the doctor.
    fn wheel(&self, name: &str, log: &mut Log) -> Outcome {
        let wheels = self.target.join("wheels").join(name);
        let _ = fs::remove_dir_all(&wheels);
        let project = self.project(name);
        let mut build = self.python(&project);
        build.args(["-m", "pip", "wheel", "--quiet", "--no-deps"]);
        build.args(["--no-build-isolation", ".", "-w"]).arg(&wheels);
        tally::run("pip wheel", &mut build, log)?;
        let file = fs::read_dir(&wheels)?.next().context("no wheel")??.path();
        // The library next to the sources is removed, so that Python can only find the library in the wheel.
        let library = libraries::file_name(name);
        fs::remove_file(project.join("python").join(name).join(library))?;
        let mut install = self.python(&project);
        install.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
        tally::run("pip install", install.arg(&file), log)?;
        let mut doctor = Command::new(&self.cli);
        doctor.args(["doctor", "--wheel"]).arg(&file);
        tally::run("doctor", &mut doctor, log)
    }

    /// Runs the example of the library's README, and pytest.
    fn jax(&self, name: &str, log: &mut Log) -> Outcome {
        let readme = fs::read_to_string(self.project(name).join("README.md"))?;
        let (example, shown) = example(&readme).context("README.md has no example")?;
        let mut shows = self.python(&self.target);
        let said = python::output(shows.args(["-c", example]), "the README's example")?;
        ensure!(
            said.trim() == shown.trim(),
            "the README's example prints:\n{said}"
        );
        let mut pytest = self.python(&self.project(name));
        pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
        tally::run(&format!("{name}: pytest"), &mut pytest, log)
    }
}

/// Returns the first Python example of a README, and the output that the README shows after the example.
fn example(readme: &str) -> Option<(&str, &str)> {
    let (_, rest) = readme.split_once("```python\n")?;
    let (program, rest) = rest.split_once("```")?;
    let (_, rest) = rest.split_once("```text\n")?;
    let (shown, _) = rest.split_once("```")?;
    Some((program, shown))
}
