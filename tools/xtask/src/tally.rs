//! Runs steps concurrently. The time and the skipped tests of each step are reported, and the output of a failed step
//! is printed.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The skipped tests that are allowed in CI, as parts of the reasons. In CI, any other skipped test is a failure.
const CI_MAY_SKIP: &[&str] = &[
    // These tests require a GPU.
    "no GPU",
    "NVIDIA's driver",
    "a CPU has no streams",
    "a CPU has no command buffers",
    "there is nothing of a GPU to check",
    "this machine has one device",
    "its kernel is the host's here",
    // A different run of the same step includes these tests.
    "command buffers are another run's",
    "the manifest names platform CUDA alone",
    // The package index does not have zig and go for every machine.
    "no zig (set XLA_FFI_ZIG",
    "no go (set XLA_FFI_GO",
    // The oldest jaxlib lacks these features.
    "no state in this jaxlib",
    "no futures in this jaxlib",
    "no tokens in this jax",
    "the headers of this jaxlib have other names for buffers",
    "this jaxlib lacks it: ",
    "this jax's own ffi_call is another one",
    "this jaxlib registers no types for Python",
    "this jax has no Explicit axes",
    "this jax exports nothing for an abstract mesh",
    // This is a limitation of XLA. The test limits how often the skip may occur.
    "turn packed arrays, which this XLA's compiler cannot",
];

/// The output of a step, as text.
pub(crate) type Log = String;

/// The skipped tests of a step, each as `NAME: REASON`, or the error of the step.
pub(crate) type Outcome = Result<Vec<String>>;

/// Returns the skipped tests that are failures in CI, where every required program can be installed.
fn forbidden(skips: &[String]) -> impl Iterator<Item = &String> {
    let may = |skip: &&String| CI_MAY_SKIP.iter().any(|reason| skip.contains(reason));
    skips.iter().filter(move |skip| !may(skip))
}

/// A finished step: the step's name, the skipped tests (`None` if the step failed), and the elapsed time.
type Step = (String, Option<Vec<String>>, Duration);

/// The finished steps, and the settings for running steps concurrently.
#[derive(Debug)]
pub(crate) struct Tally {
    steps: Mutex<Vec<Step>>,
    free: Mutex<usize>,
    freed: Condvar,
    start: Instant,
    /// The file that records the names of steps that passed.
    notes: Option<PathBuf>,
    /// Steps that already passed for this state of the checkout.
    passed: BTreeSet<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file with a hash of the checkout, followed by the steps that passed for this state of the checkout.
const PASSED: &str = "target/xtask/passed";

/// Returns a hash of all files of the checkout that git does not ignore.
fn tree(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(root);
        git.env("GIT_INDEX_FILE", root.join("target/xtask/index"));
        let output = git.output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    std::fs::create_dir_all(root.join("target/xtask")).ok()?;
    git(&["add", "--all"])?;
    let tree = String::from_utf8(git(&["write-tree"])?).ok()?;
    Some(tree.trim().to_owned())
}

impl Tally {
    /// Returns a tally that runs as many concurrent steps as the machine has processors.
    pub(crate) fn new() -> Self {
        Self {
            steps: Mutex::default(),
            free: Mutex::new(std::thread::available_parallelism().map_or(1, usize::from)),
            freed: Condvar::new(),
            start: Instant::now(),
            notes: None,
            passed: BTreeSet::new(),
        }
    }

    /// Returns a tally that records which steps passed.
    ///
    /// If `resume` is set, steps that passed for the same state of the checkout are skipped.
    pub(crate) fn noting(root: &Path, resume: bool) -> Self {
        let tree = tree(root);
        let known = std::fs::read_to_string(root.join(PASSED)).unwrap_or_default();
        let mut known = known.lines().map(str::to_owned);
        let same = known.next() == tree;
        if let Some(tree) = &tree
            && !(same && resume)
        {
            let _ = std::fs::write(root.join(PASSED), format!("{tree}\n"));
        }
        Self {
            passed: known.filter(|_| same && resume).collect(),
            notes: tree.map(|_| root.join(PASSED)),
            ..Self::new()
        }
    }

    /// Returns true if a step passed in an earlier run, so that it is skipped.
    pub(crate) fn has_passed(&self, name: &str) -> bool {
        self.passed.contains(name)
    }

    /// Runs a command as a step.
    pub(crate) fn step(&self, name: &str, command: &mut Command) {
        self.work(name, |log| run(name, command, log));
    }

    /// Runs a function as a step as soon as a processor is free.
    pub(crate) fn work(&self, name: &str, work: impl FnOnce(&mut Log) -> Outcome) {
        if !self.has_passed(name) {
            let busy = self.freed.wait_while(lock(&self.free), |free| *free == 0);
            *busy.unwrap_or_else(PoisonError::into_inner) -= 1;
            self.wide(name, work);
            *lock(&self.free) += 1;
            self.freed.notify_one();
        }
    }

    /// Runs a function as a step immediately, unlike [`Tally::work`]. Meant for functions that wait for other steps or
    /// limit their own concurrency.
    pub(crate) fn wide(&self, name: &str, work: impl FnOnce(&mut Log) -> Outcome) {
        note(format_args!("{name}: started"));
        let start = Instant::now();
        let mut log = Log::new();
        let outcome = work(&mut log);
        let took = start.elapsed();
        match &outcome {
            Ok(_) => println!("== {name}: ok, {}", seconds(took)),
            Err(error) => println!(
                "{log}error: {error:#}\n== {name}: FAILED, {}",
                seconds(took)
            ),
        }
        let mut steps = lock(&self.steps);
        if let (Some(notes), Ok(skips)) = (&self.notes, &outcome)
            && forbidden(skips).next().is_none()
        {
            let file = std::fs::File::options().append(true).open(notes);
            let _ = file.and_then(|mut file| writeln!(file, "{name}"));
        }
        steps.push((name.to_owned(), outcome.ok(), took));
    }

    /// Prints the steps, the skipped tests and the failures. Returns an error if a step failed.
    ///
    /// If `complete` is set, skipped tests that CI does not allow are failures.
    pub(crate) fn finish(self, complete: bool) -> Result<()> {
        let steps = lock(&self.steps);
        let width = steps.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
        for (name, _, took) in &*steps {
            println!("{name:width$}  {:>10}", seconds(*took));
        }
        println!("by the clock: {}", seconds(self.start.elapsed()));
        if !self.passed.is_empty() {
            println!("left out: {} steps that passed before", self.passed.len());
        }
        let skips = steps.iter().filter_map(|(_, skips, _)| skips.as_ref());
        let skips: Vec<String> = skips.flatten().cloned().collect();
        for skip in &skips {
            println!("skipped: {skip}");
        }
        let failed = steps.iter().filter(|(_, skips, _)| skips.is_none());
        let mut failed: Vec<String> = failed.map(|(name, ..)| name.clone()).collect();
        if complete {
            let skips = forbidden(&skips);
            failed.extend(skips.map(|skip| format!("skipped, which CI must not: {skip}")));
        }
        for failure in &failed {
            println!("FAILED: {failure}");
        }
        let passed = steps.iter().filter(|(_, skips, _)| skips.is_some()).count();
        println!(
            "{passed} steps passed, {} failed, {} checks skipped",
            failed.len(),
            skips.len()
        );
        ensure!(failed.is_empty(), "not all checks passed");
        Ok(())
    }
}

/// Runs a command and adds its output to the log.
pub(crate) fn run(of: &str, command: &mut Command, log: &mut Log) -> Outcome {
    // Standard output and standard error share one pipe, so that the order of lines is kept.
    let (mut reader, writer) = std::io::pipe().context("making a pipe")?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let child = command.spawn();
    // The command also holds the pipe's write end, which must be closed so that reading ends.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.with_context(|| format!("starting {command:?}"))?;
    let mut said = Vec::new();
    reader.read_to_end(&mut said)?;
    let status = child.wait()?;
    log.push_str(&String::from_utf8_lossy(&said));
    ensure!(status.success(), "{of} ended with {status}");
    Ok(vec![])
}

/// Like [`run`], for drivers of this project, which print lines such as `ok NAME`, `FAIL NAME: …` and `skipped NAME:
/// …`.
pub(crate) fn drive(of: &str, command: &mut Command, log: &mut Log) -> Outcome {
    let mut said = Log::new();
    let outcome = run(of, command, &mut said);
    log.push_str(&said);
    outcome?;
    let skips = said
        .lines()
        .filter_map(|line| line.strip_prefix("skipped "));
    let skips: Vec<String> = skips.map(str::to_owned).collect();
    if skips.is_empty() && !said.lines().any(|line| line.starts_with("ok ")) {
        bail!("{of} reported no test");
    }
    Ok(skips)
}

/// Prints a line of progress to standard error, so that standard output contains only results.
pub(crate) fn note(text: impl Display) {
    eprintln!("   {text}");
}

/// Returns a duration as text, in seconds or in minutes and seconds.
pub(crate) fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    if whole < 100 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_or_silent_driver_is_a_failure() {
        for (script, expected) in [
            ("exit 1", None),
            ("true", None),
            ("echo ok a; exit 1", None),
            ("echo ok a; echo 'skipped b: old'", Some(vec!["b: old"])),
        ] {
            let mut command = Command::new("sh");
            let outcome = drive("sh", command.args(["-c", script]), &mut Log::new());
            let expected = expected.map(|skips| skips.into_iter().map(str::to_owned).collect());
            assert_eq!(outcome.ok(), expected, "{script}");
        }
    }

    #[test]
    fn steps_that_passed_are_left_out_until_a_file_changes() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        std::fs::write(root.join(".gitignore"), "target\n").unwrap();
        let mut git = Command::new("git");
        let made = git.args(["init", "--quiet"]).arg(root).status().unwrap();
        assert!(made.success());
        let tally = Tally::noting(root, false);
        tally.work("good", |_| Ok(vec![]));
        tally.work("bad", |_| bail!("it is bad"));
        tally.work("skipping", |_| Ok(vec!["a: no valgrind".to_owned()]));
        let again = Tally::noting(root, true);
        let left_out = ["good", "bad", "skipping"].map(|name| again.has_passed(name));
        assert_eq!(left_out, [true, false, false]);
        std::fs::write(root.join("new"), "").unwrap();
        assert!(!Tally::noting(root, true).has_passed("good"));
    }
}
