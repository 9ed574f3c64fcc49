//! `cargo xtask soak`: fuzzing for as long as there is time. What it found is kept under `target/soak`, where the next run
//! goes on.

use crate::cargo::cargo;
use crate::folders;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Command line of `soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which parsers to attack: folders of `tools/fuzz/corpus`. Default: all.
    what: Vec<String>,
    /// How long in all; at least one minute per target.
    #[arg(long, default_value_t = 30)]
    minutes: u64,
}

/// Counters in every branch, comparisons that the fuzzer sees, and the checks of a debug build. Stable compilers have LLVM's
/// pass too.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// What libFuzzer is told besides the folders: inputs in bytes, seconds for one, MiB.
const LIMITS: [&str; 3] = ["-max_len=16384", "-timeout=20", "-rss_limit_mb=1024"];

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = folders::checkout();
    let mut known: Vec<String> = vec![];
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
        match fuzz(&root, name, turn) {
            Ok(()) => println!("{name}: held for {} s", turn.as_secs()),
            Err(error) => {
                println!("{name}: {error:#}");
                broken.push(name.as_str());
            }
        }
    }
    ensure!(broken.is_empty(), "broken: {}", broken.join(", "));
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
        // If a target is named, the flags are not those of build scripts.
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
