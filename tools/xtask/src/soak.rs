//! `cargo xtask soak` runs the fuzzers for a given time, and the checks that take hours: compatibility, mutants and
//! coverage. Findings are kept in `target/soak`, where the fuzzers continue.

mod coverage;
mod mutants;

use crate::cargo::cargo;
use crate::{folders, venv};
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Command line of `soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Parsers to fuzz: folders of `tools/fuzz/corpus`. `revisions`: libraries that know older revisions on every
    /// listed jaxlib, and 1000 generated revisions. `mutants-cpp`, `mutants-doctor`, `mutants-ffi`: changes to the
    /// sources, which tests must detect. `coverage`: lines and branches that tests run. Default: all.
    what: Vec<String>,
    /// Selects the mutants.
    #[arg(long, default_value_t = 1)]
    seed: usize,
    /// Total time of the fuzzers in minutes; at least one minute per target.
    #[arg(long, default_value_t = 30)]
    minutes: u64,
}

/// Compiler flags for coverage counters in every branch, comparisons for the fuzzer, and the checks of a debug build.
/// Stable compilers include this pass of LLVM.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// The options for libFuzzer: the input size in bytes, the seconds per input, and the memory in MiB.
const LIMITS: [&str; 3] = ["-max_len=16384", "-timeout=20", "-rss_limit_mb=1024"];

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = folders::checkout();
    let mut known = vec!["coverage".to_owned(), "revisions".to_owned()];
    known.extend(mutants::NAMES.map(str::to_owned));
    for entry in std::fs::read_dir(root.join("tools/fuzz/corpus")).context("tools/fuzz/corpus")? {
        known.push(entry?.file_name().to_string_lossy().into_owned());
    }
    known.sort();
    if let Some(other) = args.what.iter().find(|name| !known.contains(name)) {
        bail!(
            "nothing to attack is called {other:?}; there are {}",
            known.join(", ")
        );
    }
    if !args.what.is_empty() {
        known.clone_from(&args.what);
    }
    let turn = Duration::from_secs((60 * args.minutes / known.len() as u64).max(60));
    let mut broken = vec![];
    for name in &known {
        let start = Instant::now();
        let outcome = match name.as_str() {
            "coverage" => coverage::run(&root),
            "revisions" => revisions(&root),
            name if mutants::NAMES.contains(&name) => mutants::run(&root, name, args.seed),
            target => fuzz(&root, target, turn),
        };
        match outcome {
            Ok(()) => println!("{name}: held for {} s", start.elapsed().as_secs()),
            Err(error) => {
                println!("{name}: {error:#}");
                broken.push(name.as_str());
            }
        }
    }
    ensure!(broken.is_empty(), "broken: {}", broken.join(", "));
    Ok(())
}

/// Runs the long form of the tests in `tests/languages/revisions`.
fn revisions(root: &Path) -> Result<()> {
    let venvs = venv::listed();
    let venvs = venvs.iter().map(|version| venv::exactly(version));
    let pythons = venvs.map(|venv| Ok(venv?.python));
    let pythons = std::env::join_paths(pythons.collect::<Result<Vec<_>>>()?)?;
    let status = cargo(root)
        .args(["test", "--package", "xla-ffi-tests", "--test", "languages"])
        .args(["revisions::n", "--", "--nocapture"])
        .envs([
            ("XLA_FFI_PYTHONS", pythons),
            ("XLA_FFI_SEEDS", "1..1001".into()),
        ])
        .status()?;
    ensure!(status.success(), "the tests above say what to run again");
    Ok(())
}

/// Runs libFuzzer on a target of `tools/fuzz/`.
fn fuzz(root: &Path, target: &str, turn: Duration) -> Result<()> {
    let version = Command::new("rustc").arg("-vV").output()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not print its host")?;
    let built = cargo(root)
        .args(["build", "--quiet", "--release", "-p", "xla-ffi-fuzz"])
        .args(["--bin", "fuzz", "--features", "libfuzzer"])
        // If the target is explicit, cargo does not apply the flags to build scripts.
        .args(["--target", host, "--target-dir", "target/fuzz"])
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
        .status()?;
    ensure!(built.success(), "the fuzzer does not build");
    let folder = root.join("target/soak").join(target);
    let corpus = folder.join("corpus");
    std::fs::create_dir_all(&corpus)?;
    let mut fuzzer = Command::new(root.join("target/fuzz").join(host).join("release/fuzz"));
    fuzzer
        .args(LIMITS)
        .arg(format!("-artifact_prefix={}/", folder.display()))
        .arg(format!("-max_total_time={}", turn.as_secs()))
        .arg(corpus)
        .env("XLA_FFI_FUZZ", target);
    let words = root.join("tools/fuzz/words").join(target);
    if words.exists() {
        fuzzer.arg(format!("-dict={}", words.display()));
    }
    let committed =
        ["corpus", "regressions"].map(|name| root.join("tools/fuzz").join(name).join(target));
    fuzzer.args(committed.iter().filter(|folder| folder.exists()));
    ensure!(
        fuzzer.status()?.success(),
        "copy the input that broke it to tools/fuzz/regressions/{target}; `cargo test -p xla-ffi-fuzz` replays it"
    );
    Ok(())
}
