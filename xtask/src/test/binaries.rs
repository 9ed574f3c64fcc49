//! Test programs: built by one cargo, run side by side, each test of a program after the other. So each
//! test's time is seen, and one that waits keeps no other program waiting.

use super::material::Material;
use crate::cargo::cargo;
use crate::counts::{Counts, Format};
use crate::tally::{self, Log, Tally};
use crate::ui;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Programs that take long: they start first, since what is left at the end runs alone, and `--quick`
/// leaves them out.
const LONG: [&str; 34] = [
    "xla-ffi-cli verdicts",
    "xla-ffi-embedding-example programs",
    "xla-ffi-programs pjrt",
    "xla-ffi-runtime-c open",
    "xla-ffi ui",
    "xla-ffi-cli new",
    "xla-ffi-tests cpp_build",
    "xla-ffi-tests cpp_defects",
    "xla-ffi-tests cpp_headers",
    "xla-ffi-tests cpp_coverage",
    "xla-ffi-tests cpp_install",
    "xla-ffi-runtime upstream",
    "xla-ffi-abi hostile",
    "xla-ffi-tests pjrt",
    "xla-ffi-tests refused_builds",
    "xla-ffi-cli run",
    "xla-ffi-abi mutations",
    "xla-ffi-runtime-c internal",
    "xla-ffi-runtime-c pjrt",
    "xla-ffi-runtime-c embed",
    "xla-ffi-runtime differential",
    "xla-ffi-programs programs",
    "xla-ffi-runtime-c programs",
    "xla-ffi-runtime-c unwritten",
    "xla-ffi embedding",
    "xla-ffi-tests examples",
    "xla-ffi-runtime behaviours",
    "xla-ffi-cli stubs",
    "xla-ffi-cli doctor",
    "xla-ffi-cli pjrt",
    "xla-ffi-cli mirrors",
    "xla-ffi-cuda-examples emulated",
    "xla-ffi-tests hostile",
    "xla-ffi-tests races",
];

/// One test program.
#[derive(Debug)]
pub(super) struct Binary {
    /// Package and target.
    name: String,
    package: String,
    program: PathBuf,
    /// The package's folder, in which its tests run.
    folder: PathBuf,
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

/// Builds test programs with `cargo test --no-run`, adds them to `built`, and counts the build as one check.
pub(super) fn build(
    mut command: Command,
    built: &mut Vec<Binary>,
    log: &mut Log,
) -> Result<Counts> {
    command.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let mut said = Log::default();
    let counts = tally::run(
        Format::Whole,
        "cargo test --no-run",
        &mut command,
        &mut said,
    )?;
    for line in said.text().lines() {
        match binary(line) {
            Some(binary) => built.push(binary),
            None if line.starts_with('{') => {}
            None => log.line(line),
        }
    }
    ensure!(counts.failed == 0, "the tests do not build");
    ensure!(!built.is_empty(), "cargo built no test");
    built.sort_by_key(|binary| {
        let rank = LONG.iter().position(|long| *long == binary.name);
        (rank.unwrap_or(LONG.len()), binary.name.clone())
    });
    log.line(format_args!("{} test programs", built.len()));
    Ok(counts)
}

/// Whether `--quick` leaves it out.
pub(super) fn is_long(binary: &Binary) -> bool {
    LONG.contains(&binary.name.as_str())
}

/// The test program that a line of cargo's tells of.
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
    })
}

/// The package's name in `path+file:///…/folder#name@version`, or `…/name#version`.
fn package(id: &str) -> Option<String> {
    let (path, rest) = id.rsplit_once('#')?;
    let name = match rest.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit_once('/')?.1,
    };
    Some(name.to_owned())
}

/// Runs them all, as many at a time as the tally allows.
pub(super) fn run_all(
    root: &Path,
    binaries: &[Binary],
    material: &Material,
    environment: &[(&str, &str)],
    tally: &Tally,
) -> Result<Counts> {
    let skips = root.join("target/xtask/skips");
    let _ = std::fs::remove_file(&skips);
    let libraries = libraries(root)?;
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Ok(Counts::default()));
    let work = || {
        while let Some(binary) = binaries.get(next.fetch_add(1, Ordering::Relaxed)) {
            let _slot = tally.slot();
            let mut command = binary.command(root, &libraries);
            material.name_in(&mut command);
            command.env("XLA_FFI_SKIPS", &skips);
            command.envs(environment.iter().copied());
            let mut log = Log::default();
            let start = Instant::now();
            let counts = tally::run(Format::Serial, &binary.name, &mut command, &mut log);
            if counts.as_ref().is_ok_and(|counts| counts.failed == 0) {
                log.keep_verdicts();
            }
            let took = ui::seconds(start.elapsed());
            log.line(format_args!("-- {}: {took}", binary.name));
            log.show();
            let mut total = total.lock().expect("no worker panics");
            match (&mut *total, counts) {
                (Ok(total), Ok(counts)) => total.add(counts),
                (total, Err(error)) => *total = Err(error),
                (Err(_), _) => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut counts = total.into_inner().expect("no worker panics")?;
    if let Ok(text) = std::fs::read_to_string(&skips) {
        counts.own_skips(&text);
    }
    if counts.passed == 0 {
        bail!("no test passed");
    }
    Ok(counts)
}

/// Where the standard library lies as a shared library, which the tests of macros are linked with.
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
    /// Package and target.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// As cargo would run it, but for the order of its tests.
    fn command(&self, root: &Path, libraries: &Path) -> Command {
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
            .current_dir(&self.folder)
            .env("CARGO", cargo.get_program())
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_MANIFEST_PATH", self.folder.join("Cargo.toml"))
            .env("CARGO_PKG_NAME", &self.package);
        let mut paths = vec![libraries.to_owned()];
        paths.extend(self.program.parent().map(Path::to_owned));
        if let Some(set) = std::env::var_os("LD_LIBRARY_PATH") {
            paths.extend(std::env::split_paths(&set));
        }
        if let Ok(paths) = std::env::join_paths(paths) {
            command.env("LD_LIBRARY_PATH", paths);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_tells_is_understood() {
        let line = r#"{"reason":"compiler-artifact","package_id":"path+file:///here/ffi#xla-ffi@0.1.0",
            "manifest_path":"/here/ffi/Cargo.toml","target":{"name":"ui","kind":["test"]},
            "profile":{"test":true},"executable":"/there/ui-12"}"#;
        let found = binary(line).unwrap();
        assert_eq!(found.name, "xla-ffi ui");
        assert_eq!(found.folder, Path::new("/here/ffi"));
        assert!(is_long(&found));
        assert!(binary(&line.replace("true", "false")).is_none());
        assert!(binary("{\"reason\":\"build-finished\",\"success\":true}").is_none());
        assert_eq!(package("path+file:///here/xtask#0.0.0").unwrap(), "xtask");
    }
}
