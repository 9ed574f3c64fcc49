//! `cargo xtask soak mutants-…` changes the sources in a sample of places and reports the changes that no test detects.
//!
//! cargo-mutants changes Rust; `.cargo/mutants.toml` excludes equivalent mutants. This file changes the C++ headers, in a
//! clone of the checkout's last commit.

use crate::cargo::{self, cargo};
use crate::material::Material;
use crate::python;
use crate::tally::Log;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of cargo-mutants.
const VERSION: &str = "27.1.0";

/// Rust sources, with the number of mutants and the tests that run for each.
struct Sample {
    name: &'static str,
    package: &'static str,
    source: &'static str,
    /// Files and folders of the source.
    files: &'static [&'static str],
    count: usize,
    /// Arguments of `cargo test` for every mutant, in the package.
    quick: &'static [&'static str],
    /// Arguments of `cargo test` for the mutants that survive, in the workspace.
    thorough: &'static [&'static str],
}

const SAMPLES: [Sample; 2] = [
    Sample {
        name: "mutants-ffi",
        package: "xla-ffi",
        source: "ffi/src",
        files: &["attribute", "bind", "entry", "frame", "operand"],
        count: 100,
        quick: &["--lib", "--test=rust_api", "--test=requests"],
        thorough: &[
            "--test=rust_api",
            "--test=internal",
            "--test=executor",
            "--test=cancellation",
            "--test=embedding",
            "--test=unwritten_results",
            "--test=examples",
            "--test=languages",
            "--test=torture",
        ],
    },
    Sample {
        name: "mutants-doctor",
        package: "xla-ffi-doctor",
        source: "abi/doctor/src",
        files: &[
            "candidate",
            "difference",
            "examination",
            "manifest/check",
            "related_handlers",
            "verdict",
            "wheel/findings",
        ],
        count: 50,
        quick: &["--lib", "--test=library_files", "--test=manifest_macros"],
        thorough: &[
            "--test=library_files",
            "--test=manifest_macros",
            "--test=doctor",
            "--test=diff",
            "--test=verdicts",
            "--test=inspect",
            "--test=platforms",
        ],
    },
];

/// The number of mutants of the C++ headers.
const HEADERS: usize = 50;

/// Operators of C++ with their replacements.
const OPERATORS: [(&str, &str); 8] = [
    (" == ", " != "),
    (" != ", " == "),
    (" < ", " <= "),
    (" <= ", " < "),
    (" > ", " >= "),
    (" >= ", " > "),
    (" && ", " || "),
    (" || ", " && "),
];

/// Parts of lines in the C++ headers whose operators may be changed without an effect.
const EQUIVALENT: [&str; 2] = [
    // The slow path accepts the same calls.
    "kRets > 0 && g < kGroups",
    // Readers treat an empty list as no list.
    "if (words.count > 0) json.Raw(\", \\\"traits\\\": \")",
];

/// The names for the command line.
pub(super) const NAMES: [&str; 3] = ["mutants-cpp", "mutants-doctor", "mutants-ffi"];

/// Tests the mutants that a seed selects from the sources of `name`, and prints those that survive.
///
/// # Errors
/// Fails if less than 95 % are killed.
pub(super) fn run(root: &Path, name: &str, seed: usize) -> Result<()> {
    let material = Material::fetch(true, &mut Log::new())?;
    let sample = SAMPLES.iter().find(|sample| sample.name == name);
    let Count { killed, missed } = match sample {
        Some(sample) => sample.run(root, &material, seed)?,
        None => headers(root, &material, seed)?,
    };
    let all = killed + missed;
    println!("{name}: {killed} of {all} mutants killed");
    ensure!(20 * missed <= all, "less than 95 %");
    Ok(())
}

impl Sample {
    fn run(&self, root: &Path, material: &Material, seed: usize) -> Result<Count> {
        let tool = &cargo::tool(root, "cargo-mutants", VERSION)?;
        let folder = root.join("target/soak").join(self.name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let command = || {
            let mut command = Command::new(tool);
            material.name_in(&mut command);
            command
                .current_dir(root)
                .args(["mutants", "--package", self.package]);
            for file in self.files {
                let source = self.source;
                command.args(["--file", &format!("{source}/{file}.rs")]);
                command.args(["--file", &format!("{source}/{file}/*.rs")]);
            }
            command
        };
        let list = python::output(command().arg("--list"), "cargo mutants --list")?;
        let names: Vec<&str> = list.lines().collect();
        let names = sampled(&names, self.count, seed);
        test(command(), names, self.quick, &folder.join("quick"))?;
        let lines = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let survivors = lines("quick/mutants.out/missed.txt");
        let mut missed = 0;
        if !survivors.is_empty() {
            let mut unchanged = cargo(root);
            unchanged.args(["test", "--workspace"]).args(self.thorough);
            material.name_in(&mut unchanged);
            ensure!(unchanged.status()?.success(), "tests fail without a mutant");
            let mut command = command();
            // cargo-mutants would test the unchanged package without the workspace.
            command.args(["--test-workspace", "true", "--baseline", "skip"]);
            command.args(["--timeout", "600", "--build-timeout", "900"]);
            let names = survivors.iter().map(String::as_str);
            test(command, names, self.thorough, &folder.join("thorough"))?;
            missed = lines("thorough/mutants.out/missed.txt").len();
        }
        // The tests of some mutants do not end, which is a failure that they detect.
        let detected = ["caught", "timeout"].map(|kind| format!("quick/mutants.out/{kind}.txt"));
        let detected: usize = detected.iter().map(|file| lines(file).len()).sum();
        Ok(Count {
            killed: detected + survivors.len() - missed,
            missed,
        })
    }
}

/// Tests the mutants of these names with these arguments of `cargo test`. The results are in a new folder.
fn test<'n>(
    mut command: Command,
    names: impl Iterator<Item = &'n str>,
    arguments: &[&str],
    folder: &Path,
) -> Result<()> {
    fs::create_dir_all(folder)?;
    for name in names {
        let mut pattern = String::from("^");
        for sign in name.chars() {
            if r".^$*+?()[]{}|\".contains(sign) {
                pattern.push('\\');
            }
            pattern.push(sign);
        }
        command.args(["--re", &(pattern + "$")]);
    }
    // With Git's folder, because some tests use it.
    command.args(["--copy-vcs", "true", "--output"]).arg(folder);
    // In this form, the arguments also restrict what is built.
    command.args(
        arguments
            .iter()
            .map(|argument| format!("--cargo-arg={argument}")),
    );
    // 2 and 3: mutants survive, or their tests do not end.
    match command.status()?.code() {
        Some(0 | 2 | 3) => Ok(()),
        _ => bail!("cargo mutants failed"),
    }
}

/// Returns about `count` items at equal distances.
fn sampled<T: Copy>(all: &[T], count: usize, seed: usize) -> impl Iterator<Item = T> {
    let step = all.len().div_ceil(count);
    all.iter().copied().skip(seed % step).step_by(step)
}

/// The results of a sample, without mutants that do not compile.
struct Count {
    killed: usize,
    missed: usize,
}

/// Tests mutants of the C++ headers, in a clone.
fn headers(root: &Path, material: &Material, seed: usize) -> Result<Count> {
    let clone = root.join("target/soak/headers");
    if clone.exists() {
        fs::remove_dir_all(&clone)?;
    }
    let mut git = Command::new("git");
    git.args(["clone", "--quiet"]).arg(root).arg(&clone);
    ensure!(git.status()?.success(), "git clone failed");
    let suite = cargo::test_program(&clone, &["-p", "xla-ffi-tests", "--test", "cpp"])?;

    let run = |thorough: bool| {
        let mut tests = Command::new(&suite);
        tests.arg("suite::ours");
        if thorough {
            tests = cargo(&clone);
            tests.args(["test", "-p", "xla-ffi-tests", "-p", "xla-ffi-runtime-c"]);
            tests.args([
                "--test=cpp",
                "--test=c",
                "--test=languages",
                "--test=torture",
            ]);
            tests.args(["--test=internal", "--test=programs"]);
            // These tests build projects with CMake and Python.
            tests.args(["--", "--skip=install::"]);
        }
        material.name_in(&mut tests);
        tests.current_dir(&clone).output().context("tests")
    };
    for thorough in [false, true] {
        ensure!(
            run(thorough)?.status.success(),
            "tests fail without a mutant"
        );
    }

    let places = places(&clone.join("include/xla_ffi/cpp"))?;
    let places: Vec<&Place> = places.iter().collect();
    let (mut killed, mut missed) = (0, 0);
    for place in sampled(&places, HEADERS, seed) {
        let whole = fs::read_to_string(&place.file)?;
        let line = whole.lines().nth(place.line).unwrap_or_default();
        if EQUIVALENT.iter().any(|part| line.contains(part)) {
            println!("no effect: {}", place.describe(&clone));
            continue;
        }
        fs::write(&place.file, place.applied_to(&whole))?;
        let mut outcome = run(false)?;
        if outcome.status.success() {
            outcome = run(true)?;
        }
        fs::write(&place.file, whole)?;
        let said = [outcome.stdout, outcome.stderr].concat();
        if outcome.status.success() {
            missed += 1;
            println!("MISSED   {}", place.describe(&clone));
        } else if !String::from_utf8_lossy(&said).contains(": error: ") {
            killed += 1;
        }
    }
    Ok(Count { killed, missed })
}

/// An operator in a header, with its replacement.
struct Place {
    file: PathBuf,
    /// Line number, from 0.
    line: usize,
    /// Byte offset in the line.
    column: usize,
    from: &'static str,
    to: &'static str,
}

impl Place {
    fn applied_to(&self, whole: &str) -> String {
        let mut lines: Vec<String> = whole.lines().map(str::to_owned).collect();
        lines[self.line].replace_range(self.column..self.column + self.from.len(), self.to);
        lines.join("\n") + "\n"
    }

    fn describe(&self, root: &Path) -> String {
        let file = self.file.strip_prefix(root).unwrap_or(&self.file).display();
        let (line, column) = (self.line + 1, self.column + 2);
        format!(
            "{file}:{line}:{column}: replace {} with {}",
            self.from.trim(),
            self.to.trim()
        )
    }
}

/// Returns the operators in the headers of a folder, without those in comments, literals and directives.
fn places(folder: &Path) -> Result<Vec<Place>> {
    let mut places = vec![];
    let mut files = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    for file in files {
        for (line, text) in fs::read_to_string(&file)?.lines().enumerate() {
            let code = text.split("//").next().unwrap_or_default();
            if code.trim_start().starts_with(['#', '*', '/']) || code.ends_with('\\') {
                continue;
            }
            for (from, to) in OPERATORS {
                for (column, _) in code.match_indices(from) {
                    if code[..column].matches('"').count() % 2 == 0 {
                        places.push(Place {
                            file: file.clone(),
                            line,
                            column,
                            from,
                            to,
                        });
                    }
                }
            }
        }
    }
    Ok(places)
}
