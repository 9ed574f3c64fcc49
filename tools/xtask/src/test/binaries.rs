//! Builds test programs with one cargo command, and runs the programs concurrently. The tests of each program run in
//! sequence.

use crate::cargo::cargo;
use crate::material::Material;
use crate::tally::{self, Log, Outcome, Tally};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The integration tests that run without `--all`, in addition to the unit tests. Each test covers one part of the
/// project quickly.
///
/// `TARGET::MODULE` is a module of a test program of the root package.
const PLAIN: [&str; 15] = [
    "rust_api",
    "executor",
    "async_crates",
    "registry",
    "rules",
    "misuse",
    "inspect",
    "run",
    "book",
    "c::context",
    "c::examples",
    "c::functions",
    "examples",
    "languages::before_r0",
    "languages::type_ids",
];

/// The package whose test programs have one step per module. The programs contain many tests, and only steps run
/// concurrently.
const SPLIT: &str = "xla-ffi-tests";

/// The slow test programs. They start first, so that the run does not end with a single slow program on an otherwise
/// idle machine.
const LONG: [&str; 18] = [
    "xla-ffi-cli verdicts",
    "xla-ffi-embedding-example programs",
    "xla-ffi-programs pjrt",
    "xla-ffi ui",
    "xla-ffi-cli new",
    "xla-ffi-tests cpp::compilation",
    "xla-ffi-tests cpp::compile_errors",
    "xla-ffi-tests cpp::suite",
    "xla-ffi-tests cpp::programs",
    "xla-ffi-tests cpp::install",
    "xla-ffi-tests pjrt::behaviours",
    "xla-ffi-tests pjrt",
    "xla-ffi-tests languages::build_errors",
    "xla-ffi-cli run",
    "xla-ffi-abi mutations",
    "xla-ffi-cuda-examples emulated",
    "xla-ffi-tests races",
    "xla-ffi-tests torture",
];

/// A test program, or some of its tests.
#[derive(Clone, Debug)]
pub(super) struct Binary {
    /// The package and the target, followed by the module if the binary is one module.
    name: String,
    package: String,
    program: PathBuf,
    /// The folder of the package, which is the working directory of the tests.
    folder: PathBuf,
    /// The names of the tests to run; empty for all tests.
    tests: Vec<String>,
}

#[derive(Deserialize)]
struct Message {
    package_id: Option<String>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds all test programs, or only the plain programs, and adds them to `built`. Reports the build as a step.
pub(super) fn build(root: &Path, all: bool, built: &mut Vec<Binary>, log: &mut Log) -> Outcome {
    let mut command = cargo(root);
    command.args(["test", "--workspace"]);
    if !all {
        command.args(["--lib", "--bin", "xla-ffi", "--bin", "xtask"]);
        command.args(PLAIN.iter().flat_map(|name| ["--test", target(name)]));
    }
    command.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let mut said = Log::new();
    let outcome = tally::run("cargo test --no-run", &mut command, &mut said);
    for line in said.lines() {
        match binary(line) {
            Some(binary) if binary.package == SPLIT => built.extend(binary.by_module(root)?),
            Some(binary) => built.push(binary),
            None if line.starts_with('{') => {}
            None => log.extend([line, "\n"]),
        }
    }
    outcome?;
    ensure!(!built.is_empty(), "cargo built no test");
    let modules = PLAIN.iter().filter(|name| name.contains("::"));
    let long = LONG.iter().filter(|name| all && name.starts_with(SPLIT));
    for name in modules.chain(long) {
        let is_there = built.iter().any(|binary| binary.name.ends_with(name));
        ensure!(is_there, "there are no tests of the name {name}");
    }
    if !all {
        built.retain(Binary::is_plain);
    }
    built.sort_by_key(|binary| {
        let rank = LONG.iter().position(|long| *long == binary.name);
        (rank.unwrap_or(LONG.len()), binary.name.clone())
    });
    Ok(vec![])
}

/// Returns the test target of a name in [`PLAIN`].
fn target(name: &str) -> &str {
    name.split("::").next().unwrap_or(name)
}

/// Returns the test program that a line of cargo's JSON output describes.
fn binary(line: &str) -> Option<Binary> {
    let message: Message = serde_json::from_str(line).ok()?;
    let program = message.executable?;
    let target = message.target?;
    if !message.profile?.test {
        return None;
    }
    let folder = message.manifest_path?.parent()?.to_owned();
    let package = package(&message.package_id?)?;
    let kind = target.kind.first()?;
    let name = match kind.as_str() {
        "test" => format!("{package} {}", target.name),
        "bin" => format!("{package} bin {}", target.name),
        _ => format!("{package} {kind}"),
    };
    Some(Binary {
        name,
        package,
        program,
        folder,
        tests: vec![],
    })
}

/// Returns the name of the package from a package id, `path+file:///…/folder#name@version` or `…/name#version`.
fn package(id: &str) -> Option<String> {
    let (path, rest) = id.rsplit_once('#')?;
    let name = match rest.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit_once('/')?.1,
    };
    Some(name.to_owned())
}

/// Runs each program as a step. The tally limits the number of concurrent steps.
pub(super) fn run_all(
    root: &Path,
    binaries: &[Binary],
    material: &Material,
    environment: &[(&str, &str)],
    tally: &Tally,
) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(binary) = binaries.get(next.fetch_add(1, Ordering::Relaxed)) {
            tally.work(&binary.name, |log| {
                let skips = root
                    .join("target/xtask/skips")
                    .join(binary.name.replace(' ', "-"));
                std::fs::create_dir_all(skips.parent().context("a folder")?)?;
                std::fs::write(&skips, "")?;
                let mut command = binary.command(root)?;
                material.name_in(&mut command);
                command
                    .env("XLA_FFI_SKIPS", &skips)
                    .envs(environment.iter().copied());
                tally::run(&binary.name, &mut command, log)?;
                let skips = std::fs::read_to_string(&skips)?;
                Ok(skips.lines().map(str::to_owned).collect())
            });
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}

/// Returns the folder of Rust's shared standard library, to which the tests of macros are linked.
fn libraries(root: &Path) -> Result<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .current_dir(root)
        .args(["--print", "target-libdir"])
        .output()
        .context("starting rustc")?;
    ensure!(output.status.success(), "rustc does not say where it lies");
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

impl Binary {
    /// Splits the test program into one binary per module, and one binary for tests outside of modules.
    fn by_module(&self, root: &Path) -> Result<Vec<Self>> {
        let output = self
            .command(root)?
            .args(["--list", "--format", "terse"])
            .output()
            .with_context(|| format!("listing the tests of {}", self.name))?;
        ensure!(output.status.success(), "{} lists no tests", self.name);
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut parts: Vec<Self> = vec![];
        for test in listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
        {
            let name = match test.split_once("::") {
                Some((module, _)) => format!("{}::{module}", self.name),
                None => self.name.clone(),
            };
            match parts.iter_mut().find(|part| part.name == name) {
                Some(part) => part.tests.push(test.to_owned()),
                None => parts.push(Self {
                    name,
                    tests: vec![test.to_owned()],
                    ..self.clone()
                }),
            }
        }
        ensure!(!parts.is_empty(), "{} has no tests", self.name);
        Ok(parts)
    }

    /// Returns true if the tests run without `--all`. Cargo builds whole programs, even if only some of their modules
    /// are plain.
    fn is_plain(&self) -> bool {
        let name = self.name.strip_prefix(SPLIT).map(str::trim_start);
        name.is_none_or(|name| PLAIN.contains(&name) || PLAIN.contains(&target(name)))
    }

    /// Returns the command that runs the tests as cargo would run them, but one after the other.
    fn command(&self, root: &Path) -> Result<Command> {
        let mut command = Command::new(&self.program);
        let cargo = cargo(root);
        for (name, value) in cargo.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .arg("--test-threads=1")
            .args((!self.tests.is_empty()).then_some("--exact"))
            .args(&self.tests)
            .current_dir(&self.folder)
            .env("CARGO", cargo.get_program())
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_MANIFEST_PATH", self.folder.join("Cargo.toml"))
            .env("CARGO_PKG_NAME", &self.package);
        let mut paths = vec![libraries(root)?];
        paths.extend(self.program.parent().map(Path::to_owned));
        if let Some(set) = std::env::var_os("LD_LIBRARY_PATH") {
            paths.extend(std::env::split_paths(&set));
        }
        if let Ok(paths) = std::env::join_paths(paths) {
            command.env("LD_LIBRARY_PATH", paths);
        }
        Ok(command)
    }
}
