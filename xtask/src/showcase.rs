//! `cargo xtask showcase`: the libraries under `showcase/` as their users have them: built, tested on the embedded
//! runtime, packed as a wheel, installed into a fresh environment, and there what their READMEs show, the tests in JAX
//! and the benchmarks.

use crate::cargo::cargo;
use crate::counts::{Counts, Format};
use crate::python::{self, Python};
use crate::tally::{self, Log, Tally};
use crate::{jaxlibs, libraries, matrix, ui, uv, venv};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What CI runs: the first two, with one small size in place of the benchmark.
    #[arg(long)]
    quick: bool,
    /// One of the libraries; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Draw the pictures of the READMEs anew while the benchmarks run.
    #[arg(long, conflicts_with = "quick")]
    pictures: bool,
}

/// The libraries, with the picture that the benchmark draws.
const LIBRARIES: [(&str, Option<&str>); 3] = [
    ("sparse_solve", Some("docs/times.svg")),
    ("neighbours", Some("docs/neighbours.svg")),
    ("images", None),
];
/// How many of them `--quick` takes.
const QUICK: usize = 2;
/// What a file with handlers may have: they show how little it takes.
const LINES: usize = 250;

/// Where all of it happens.
struct Place {
    root: PathBuf,
    /// What is built, shared by the libraries.
    target: PathBuf,
    /// The interpreter of the fresh environment.
    python: PathBuf,
    cli: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut chosen: Vec<_> = LIBRARIES.to_vec();
    if !args.only.is_empty() {
        chosen.retain(|(name, _)| args.only.iter().any(|only| only == name));
        ensure!(
            chosen.len() == args.only.len(),
            "the libraries are {}",
            LIBRARIES.map(|(name, _)| name).join(", ")
        );
    } else if args.quick {
        chosen.truncate(QUICK);
    }
    let root = jaxlibs::root();
    let target = root.join("target/showcase");
    let place = Place {
        cli: libraries::build_cli(&root)?,
        python: target.join("environment/bin/python"),
        target,
        root,
    };
    let tally = Tally::new();
    let mut in_jax = false;
    tally.wide("a fresh environment", |log| {
        let counts = place.environment(log)?;
        in_jax = true;
        Ok(counts)
    });
    for (name, picture) in chosen {
        let picture = picture.filter(|_| args.pictures);
        tally.wide(&format!("{name}, Rust"), |log| place.rust(name, log));
        if in_jax {
            tally.wide(&format!("{name}, wheel"), |log| place.wheel(name, log));
            tally.wide(&format!("{name}, JAX"), |log| place.jax(name, log));
            tally.wide(&format!("{name}, times"), |log| {
                place.bench(name, args.quick, picture, log)
            });
        }
    }
    if !tally.finish(matrix::in_ci()) {
        bail!("not all of the showcase is as it should be");
    }
    Ok(())
}

impl Place {
    fn project(&self, name: &str) -> PathBuf {
        self.root.join("showcase").join(name)
    }

    fn cargo(&self, name: &str) -> Command {
        let mut command = cargo(&self.project(name));
        command.env("CARGO_TARGET_DIR", &self.target);
        command
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

    /// The newest jaxlib in an environment of its own, with the loader and what tests and benchmarks need.
    fn environment(&self, log: &mut Log) -> Result<Counts> {
        let newest = venv::newest()?;
        let folder = self.target.join("environment");
        let _ = fs::remove_dir_all(&folder);
        let mut make = Python::command(&newest.base()?.exe);
        make.args(["-m", "venv"]).arg(&folder);
        let mut counts = tally::run(Format::Whole, "python -m venv", &mut make, log)?;
        let version = &newest.version;
        let jax = [format!("jax=={version}"), format!("jaxlib=={version}")];
        let tools = ["flatbuffers", "hatchling", "pillow", "pytest", "scipy"];
        uv::install(
            &self.python,
            None,
            &[&jax.each_ref().map(String::as_str), &tools[..]].concat(),
        )?;
        // One of them is measured beside it; not every machine has a wheel.
        if let Err(error) = uv::install(&self.python, None, &["klujax"]) {
            log.line(format_args!("without klujax: {error:#}"));
        }
        let mut loader = self.python(&self.root);
        loader.args(["-m", "pip", "install", "--quiet", "--no-deps", "./python"]);
        counts.add(tally::run(Format::Whole, "pip install", &mut loader, log)?);
        Ok(counts)
    }

    /// Layout, size of the handlers' files, the release build and the tests on the embedded runtime.
    fn rust(&self, name: &str, log: &mut Log) -> Result<Counts> {
        let mut counts = tally::run(
            Format::Whole,
            &format!("{name}: cargo fmt"),
            self.cargo(name).args(["fmt", "--check"]),
            log,
        )?;
        let sources = self.project(name).join("src");
        let mut all = 0;
        for entry in fs::read_dir(&sources).with_context(|| sources.display().to_string())? {
            let path = entry?.path();
            let lines = fs::read_to_string(&path)?.lines().count();
            all += lines;
            if let Some(why) = too_long(&path, lines) {
                counts.failed += 1;
                counts.failures.push(why);
            }
        }
        let begun = Instant::now();
        let built = tally::run(
            Format::Whole,
            &format!("{name}: cargo build"),
            self.cargo(name).args(["build", "--release", "--locked"]),
            log,
        )?;
        ui::note(format_args!(
            "{name}: {all} lines of Rust, built in {}, {} of processor time",
            ui::seconds(begun.elapsed()),
            ui::seconds(built.processor)
        ));
        counts.add(built);
        counts.add(tally::run_some(
            Format::Libtest,
            name,
            // The libraries have no tests inside, and would be compiled again for them.
            self.cargo(name)
                .args(["test", "--release", "--locked", "--test", "embedded"]),
            log,
        )?);
        Ok(counts)
    }

    /// Packs the wheel and installs it.
    fn wheel(&self, name: &str, log: &mut Log) -> Result<Counts> {
        let wheels = self.target.join("wheels").join(name);
        if wheels.exists() {
            fs::remove_dir_all(&wheels).with_context(|| wheels.display().to_string())?;
        }
        let project = self.project(name);
        let pip = |arguments: &[&str], file: &Path, log: &mut Log| {
            let mut command = self.python(&project);
            command.args(["-m", "pip"]).args(arguments).arg(file);
            tally::run(Format::Whole, &format!("{name}: pip"), &mut command, log)
        };
        let folder = wheels.to_str().context("a path in UTF-8")?;
        let build = [
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            folder,
        ];
        let mut counts = pip(&build, Path::new("."), log)?;
        let file = fs::read_dir(&wheels)?.next().context("no wheel")??.path();
        ui::note(format_args!(
            "{}: {} bytes",
            file.file_name().unwrap_or_default().display(),
            fs::metadata(&file)?.len()
        ));
        // Only the wheel is to be found in Python, not what lies beside the sources.
        let library = libraries::file_name(name);
        fs::remove_file(project.join("python").join(name).join(library))?;
        counts.add(pip(&["install", "--quiet", "--no-deps"], &file, log)?);
        let mut doctor = Command::new(&self.cli);
        doctor.args(["doctor", "--wheel"]).arg(&file);
        counts.add(tally::run(Format::Whole, name, &mut doctor, log)?);
        Ok(counts)
    }

    /// What the README shows, and pytest.
    fn jax(&self, name: &str, log: &mut Log) -> Result<Counts> {
        let readme = self.project(name).join("README.md");
        let readme = fs::read_to_string(&readme).with_context(|| readme.display().to_string())?;
        let (example, shown) = example(&readme).context("README.md has no example")?;
        let output = self.python(&self.target).args(["-c", example]).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let right = output.status.success() && said.trim() == shown.trim();
        let mut counts = Counts::one(right);
        if !right {
            log.line(format_args!("the README's example says:\n{said}"));
            log.bytes(&output.stderr);
            counts
                .failures
                .push(format!("{name}: the README's example"));
        }
        let mut pytest = self.python(&self.project(name));
        pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
        let before = log.text().len();
        let whole = tally::run(Format::Whole, &format!("{name}: pytest"), &mut pytest, log)?;
        counts.add(pytest_counts(name, &log.text()[before..], whole));
        Ok(counts)
    }

    fn bench(
        &self,
        name: &str,
        quick: bool,
        picture: Option<&str>,
        log: &mut Log,
    ) -> Result<Counts> {
        let mut command = self.python(&self.project(name));
        command.arg("bench.py");
        if quick {
            command.arg("--quick");
        }
        if let Some(picture) = picture {
            command.args(["--svg", picture]);
        }
        tally::run(
            Format::Whole,
            &format!("{name}: bench.py"),
            &mut command,
            log,
        )
    }
}

/// What is said of a file that has more lines than handlers should need.
fn too_long(path: &Path, lines: usize) -> Option<String> {
    let file = path.display();
    (lines > LINES).then(|| format!("{file} has {lines} lines, {LINES} are allowed"))
}

/// The first example of a README in Python, and the text below it that it prints.
fn example(readme: &str) -> Option<(&str, &str)> {
    let (_, rest) = readme.split_once("```python\n")?;
    let (program, rest) = rest.split_once("```")?;
    let (_, rest) = rest.split_once("```text\n")?;
    let (shown, _) = rest.split_once("```")?;
    Some((program, shown))
}

/// The tests that pytest's last line counts.
fn pytest_counts(name: &str, text: &str, whole: Counts) -> Counts {
    let line = text.lines().rev().find(|line| line.contains(" in "));
    let words: Vec<&str> = line.unwrap_or_default().split([' ', ',']).collect();
    let count = |what: &str| {
        let at = words.iter().position(|word| word.starts_with(what))?;
        words.get(at.checked_sub(1)?)?.parse::<usize>().ok()
    };
    let mut counts = whole;
    counts.passed = count("passed").unwrap_or(0);
    if counts.failed == 0 && counts.passed == 0 {
        counts.failed = 1;
        counts.failures.push(format!("{name}: pytest ran nothing"));
    }
    let skips = count("skipped").unwrap_or(0);
    counts
        .skips
        .extend((0..skips).map(|_| format!("{name}: a test of pytest's")));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pytest_is_counted() {
        let counts = |text, failed: bool| pytest_counts("a", text, Counts::one(!failed));
        let good = counts("...\n21 passed, 1 skipped in 15.28s\n", false);
        assert_eq!((good.passed, good.failed, good.skips.len()), (21, 0, 1));
        let bad = counts("F.\n1 failed, 20 passed in 2.0s\n", true);
        assert_eq!((bad.passed, bad.failed), (20, 1));
        assert_eq!(counts("no tests ran in 0.01s\n", false).failed, 1);
        assert_eq!(counts("", false).failed, 1);
    }

    #[test]
    fn files_of_handlers_are_short() {
        assert_eq!(too_long(Path::new("a.rs"), LINES), None);
        let said = too_long(Path::new("a.rs"), LINES + 1).unwrap();
        assert_eq!(said, "a.rs has 251 lines, 250 are allowed");
    }

    /// They are projects as `xla-ffi new` makes them.
    #[test]
    fn wheels_are_built_as_the_template_builds_them() {
        let root = jaxlibs::root();
        let template = root.join("cli/templates/rust/hatch_build.py");
        let template = fs::read_to_string(template).unwrap();
        for (name, _) in LIBRARIES {
            let hook = root.join("showcase").join(name).join("hatch_build.py");
            let hook = fs::read_to_string(hook).unwrap();
            assert_eq!(hook, template.replace("@NAME@", name), "{name}");
        }
    }

    #[test]
    fn examples_are_found() {
        let readme = "# a\n```\npip\n```\n```python\nprint(1)\n```\nsays\n\n```text\n1\n```\n";
        assert_eq!(example(readme), Some(("print(1)\n", "1\n")));
        assert_eq!(example("```python\nprint(1)\n```\n"), None);
    }
}
