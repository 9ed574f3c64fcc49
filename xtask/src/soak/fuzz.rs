//! Coverage-guided fuzzing of the targets in `fuzz/`, by libFuzzer. The compiler's counters are there
//! without a nightly toolchain: LLVM's pass is named to it by hand.

use super::{Attack, grown};
use crate::cargo::cargo;
use crate::tally::processor_time;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Counters in every branch, comparisons that the fuzzer sees, and the checks of a debug build.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions \
    -Coverflow-checks";

/// What libFuzzer is told besides the folders: inputs in bytes, seconds for one, MiB. Its clock goes on while other
/// processes have the processors: this time is for what never ends, processor time is what a target counts itself.
const LIMITS: [&str; 3] = ["-max_len=16384", "-timeout=600", "-rss_limit_mb=2048"];

/// The targets: each has a folder of inputs to begin with, which a test checks.
pub(super) fn targets(root: &Path) -> Result<Vec<String>> {
    let mut names = vec![];
    for entry in std::fs::read_dir(root.join("fuzz/corpus")).context("reading fuzz/corpus")? {
        let name = entry?.file_name().into_string();
        names.push(name.map_err(|name| anyhow::anyhow!("fuzz/corpus/{}", name.display()))?);
    }
    names.sort();
    Ok(names)
}

/// What all runs of a target found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Totals {
    executions: u64,
    /// Of processor time.
    seconds: u64,
    /// Edges that inputs have taken in the source of this repository. Those of libraries, of sorting, hashing and reading
    /// of JSON, are counted by the fuzzer too, but are not what is under attack.
    edges: u64,
    /// How long there was no new one.
    quiet: u64,
}

/// One target and how far it is.
pub(super) struct Fuzz {
    target: String,
    folder: PathBuf,
    before: Totals,
    now: Totals,
}

impl Fuzz {
    pub(super) fn new(root: &Path, folder: &Path, target: &str, anew: bool) -> Result<Self> {
        let folder = folder.join(target);
        if anew && folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("removing {}", folder.display()))?;
        }
        let corpus = folder.join("corpus");
        std::fs::create_dir_all(&corpus).with_context(|| format!("making {}", corpus.display()))?;
        grown::unpack(root, target, &corpus)?;
        let before = match std::fs::read_to_string(folder.join("totals.json")) {
            Ok(text) => serde_json::from_str(&text)
                .with_context(|| format!("reading {}/totals.json", folder.display()))?,
            Err(_) => Totals::default(),
        };
        Ok(Self {
            target: target.to_owned(),
            folder,
            before,
            now: before,
        })
    }

    /// The target's program and what it is always told.
    fn program(&self, root: &Path) -> Result<Command> {
        let folder = root.join("target/fuzz").join(host(root)?);
        let mut command = Command::new(folder.join("release/fuzz"));
        command
            .args(LIMITS)
            .arg(format!("-artifact_prefix={}/", self.folder.display()))
            .env("XLA_FFI_FUZZ", &self.target)
            .current_dir(&self.folder);
        Ok(command)
    }

    /// Where inputs lie; new ones come to the first.
    fn folders(&self, root: &Path) -> Vec<PathBuf> {
        let committed = ["corpus", "regressions"];
        let committed = committed.map(|folder| root.join("fuzz").join(folder).join(&self.target));
        let mut folders = vec![self.folder.join("corpus")];
        folders.extend(committed.into_iter().filter(|folder| folder.exists()));
        folders
    }

    /// What broke the target, where something did.
    fn finding(&self, said: &str) -> Option<String> {
        let written = "Test unit written to ";
        let file = said.split(written).nth(1)?.lines().next()?;
        let panic = said.split("panicked at ").nth(1).unwrap_or_default();
        let why: Vec<&str> = panic.lines().take(4).collect();
        let fuzz = format!("fuzz/regressions/{}", self.target);
        Some(format!(
            "{}\n{file} broke it. Copy it to {fuzz} under a name that says why; \
             `cargo test -p xla-ffi-fuzz` replays it",
            why.join("\n")
        ))
    }
}

impl Attack for Fuzz {
    fn name(&self) -> &str {
        &self.target
    }

    fn build(&self, root: &Path) -> Result<()> {
        let status = cargo(root)
            .args(["build", "--quiet", "--release", "-p", "xla-ffi-fuzz"])
            .args(["--bin", "fuzz", "--features", "libfuzzer"])
            // Where a target is named, the flags are not those of build scripts.
            .args(["--target", &host(root)?])
            .arg("--target-dir")
            .arg(root.join("target/fuzz"))
            .env("RUSTFLAGS", FLAGS)
            .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
            .status()
            .context("starting cargo")?;
        ensure!(status.success(), "the fuzzer does not build");
        Ok(())
    }

    fn go_on(&mut self, root: &Path, turn: Duration) -> Result<()> {
        let mut command = self.program(root)?;
        command
            .args(self.folders(root))
            .arg(format!("-max_total_time={}", turn.as_secs()))
            .args(["-print_final_stats=1", "-print_pcs=1", "-print_funcs=0"])
            .arg("-print_full_coverage=1");
        let words = root.join("fuzz/words").join(&self.target);
        if words.exists() {
            command.arg(format!("-dict={}", words.display()));
        }
        let before = processor_time("self").unwrap_or_default();
        let output = command.output().context("starting the fuzzer")?;
        // Beside other work a minute by the clock is worth nothing.
        let seconds = processor_time("self")
            .unwrap_or_default()
            .saturating_sub(before)
            .as_secs();
        // Inputs are told too, whatever they are.
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let finding = self.finding(&said);
            // What breaks the allocator cannot be written down: the fuzzer's own words end in a loop.
            let words = || said.chars().take(4000).collect::<String>();
            bail!(finding.unwrap_or_else(|| format!("{}: {}", output.status, words())));
        }
        let executions = executions(&said).context("the fuzzer told no figures")?;
        let (edges, untaken) = coverage(&said);
        // Then none would ever be new.
        ensure!(
            edges > 0,
            "of no edge the fuzzer knows where it was written"
        );
        self.now.quiet = match new_edges(&said) {
            0 => self.now.quiet + seconds,
            _ => 0,
        };
        let file = self.folder.join("untaken");
        std::fs::write(&file, untaken).with_context(|| format!("writing {}", file.display()))?;
        // From the same inputs a run may take an edge less than the last one.
        self.now.edges = self.now.edges.max(edges);
        self.now.executions += executions;
        self.now.seconds += seconds;
        let file = self.folder.join("totals.json");
        std::fs::write(&file, serde_json::to_string(&self.now)?)
            .with_context(|| format!("writing {}", file.display()))
    }

    fn keep(&self, root: &Path) -> Result<Option<String>> {
        let folders = self.folders(root);
        let kept = grown::keep(root, &self.target, self.program(root)?, &folders)?;
        Ok(Some(format!("{kept} inputs are kept in fuzz/grown")))
    }

    fn report(&self) -> String {
        format!(
            "{} executions in {} min of processor time in this run, {} in {} min in all; {} edges of ours, no \
             new one for {} min",
            self.now.executions - self.before.executions,
            (self.now.seconds - self.before.seconds) / 60,
            self.now.executions,
            self.now.seconds / 60,
            self.now.edges,
            self.now.quiet / 60
        )
    }
}

/// The machine's own target, as rustc calls it.
fn host(root: &Path) -> Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .current_dir(root)
        .output()
        .context("starting rustc")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not tell its host")?.to_owned())
}

/// Executions, of what libFuzzer says at its end.
fn executions(said: &str) -> Option<u64> {
    let executions = said.split("stat::number_of_executed_units:").nth(1)?;
    executions.split_whitespace().next()?.parse().ok()
}

/// What stands for an edge that is not in the source of this repository.
const FOREIGN: &str = "-";

/// How many edges of ours inputs of this run took first.
fn new_edges(said: &str) -> usize {
    let places = said
        .lines()
        .filter_map(|line| line.strip_prefix("\tNEW_PC: "));
    places.filter(|place| *place != FOREIGN).count()
}

/// How many edges of ours were taken in all, and in what functions that were entered which ones were not, a line each.
fn coverage(said: &str) -> (u64, String) {
    let mut lines = said
        .split("FULL COVERAGE:\n")
        .nth(1)
        .unwrap_or_default()
        .lines();
    let ours = |line: &str| -> Vec<String> {
        let places = line.split_whitespace().skip(1);
        places
            .filter(|place| *place != FOREIGN)
            .map(str::to_owned)
            .collect()
    };
    let (mut taken, mut untaken) = (0, BTreeMap::<String, u64>::new());
    while let (Some(not), Some(yes)) = (lines.next(), lines.next()) {
        if !not.starts_with('U') || !yes.starts_with('C') {
            break;
        }
        taken += ours(yes).len() as u64;
        if yes.len() > 1 {
            ours(not)
                .into_iter()
                .for_each(|place| *untaken.entry(place).or_default() += 1);
        }
    }
    let line = |(place, edges): (&String, &u64)| format!("{place} {edges}\n");
    (taken, untaken.iter().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "#2\tINITED cov: 9 ft: 9 corp: 1/1b exec/s: 0 rss: 29Mb\n\
        \tNEW_PC: -\n\tNEW_PC: abi/src/model.rs:7\n\
        #4713456\tDONE   cov: 1223 ft: 2795 corp: 893/3851Kb exec/s: 0 rss: 34Mb\n\
        FULL COVERAGE:\nU a.rs:2 - a.rs:2\nC a.rs:1 -\nU b.rs:9\nC\n\
        Done 4713456 runs in 61 second(s)\n\
        stat::number_of_executed_units: 4713456\nstat::average_exec_per_sec:     77269\n";

    #[test]
    fn edges_are_those_of_this_repository() {
        assert_eq!(executions(SAID), Some(4_713_456));
        assert_eq!(executions("what"), None);
        assert_eq!(new_edges(SAID), 1);
        assert_eq!(coverage(SAID), (1, "a.rs:2 2\n".to_owned()));
        assert_eq!(coverage("what"), (0, String::new()));
    }

    #[test]
    fn a_target_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let of = |anew| Fuzz::new(folder.path(), folder.path(), "spec", anew);
        let mut first = of(false).unwrap();
        assert_eq!(first.now, Totals::default());
        first.now.edges = 7;
        let totals = serde_json::to_string(&first.now).unwrap();
        std::fs::write(first.folder.join("totals.json"), totals).unwrap();
        assert_eq!(of(false).unwrap().now, first.now);
        assert_eq!(of(true).unwrap().now, Totals::default());
    }

    #[test]
    fn a_finding_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let fuzz = Fuzz::new(folder.path(), folder.path(), "npy", false).unwrap();
        let said = "thread panicked at fuzz/src/npy.rs:3:\nno\n==1== ERROR\n\
            artifact_prefix='./'; Test unit written to ./crash-0815\nBase64: ";
        let told = fuzz.finding(said).unwrap();
        for part in ["fuzz/src/npy.rs:3", "crash-0815", "fuzz/regressions/npy"] {
            assert!(told.contains(part), "{told}");
        }
        assert_eq!(fuzz.finding(SAID), None);
    }
}
