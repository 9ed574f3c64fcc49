//! Steps side by side: each is timed and counted, and its output is shown if it fails.

use crate::ui;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What CI may skip: parts of reasons. Any other skip is a failure there.
const CI_MAY_SKIP: &[&str] = &[
    // Only a GPU can show it.
    "no GPU",
    "NVIDIA's driver",
    "a CPU has no streams",
    "a CPU has no command buffers",
    "there is nothing of a GPU to check",
    "this machine has one device",
    "its kernel is the host's here",
    // Another run of the same step shows it.
    "command buffers are another run's",
    "the manifest names platform CUDA alone",
    // Not every machine has wheels of these languages.
    "no zig (set XLA_FFI_ZIG",
    "no go (set XLA_FFI_GO",
    // The oldest jaxlib lacks it.
    "no state in this jaxlib",
    "no futures in this jaxlib",
    "no tokens in this jax",
    "the headers of this jaxlib have other names for buffers",
    "this jaxlib lacks it: ",
    "this jax's own ffi_call is another one",
    "this jaxlib registers no types for Python",
    "this jax has no Explicit axes",
    "this jax exports nothing for an abstract mesh",
    // That XLA cannot do it; the test itself bounds how much it may be.
    "turn packed arrays, which this XLA's compiler cannot",
];

/// What a step printed.
pub(crate) type Log = String;

/// Counts of one step, or of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    /// Names of what failed.
    pub(crate) failures: Vec<String>,
    /// `NAME: REASON` of skipped tests.
    pub(crate) skips: Vec<String>,
}

impl Counts {
    /// One check that passed.
    pub(crate) fn one() -> Self {
        Self {
            passed: 1,
            ..Self::default()
        }
    }

    pub(crate) fn failure(name: impl Into<String>) -> Self {
        Self {
            failures: vec![name.into()],
            ..Self::default()
        }
    }

    pub(crate) fn skip(reason: impl Into<String>) -> Self {
        Self {
            skips: vec![reason.into()],
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
        self.skips.extend(other.skips);
    }

    /// Moves tests that skipped themselves from passed to skipped: `text` is what they wrote to the file `XLA_FFI_SKIPS`.
    pub(crate) fn own_skips(&mut self, text: &str) {
        for line in text.lines() {
            self.passed = self.passed.saturating_sub(1);
            self.skips.push(line.to_owned());
        }
    }

    /// The skips that fail in CI: everything can be installed there.
    fn forbidden_skips(&self) -> impl Iterator<Item = &String> {
        let may = |skip: &&String| CI_MAY_SKIP.iter().any(|reason| skip.contains(reason));
        self.skips.iter().filter(move |skip| !may(skip))
    }
}

/// How a program's output is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The exit status is the only result.
    Whole,
    /// libtest's lines `test …`.
    Libtest,
    /// Lines `ok NAME`, `FAIL NAME: …`, `skipped NAME: …` of our own drivers.
    Driver,
}

impl Format {
    fn count(self, of: &str, text: &str) -> Counts {
        let mut counts = Counts::default();
        // libtest lists the names of failed tests last, one per line and indented.
        let mut in_list = false;
        for line in text.lines() {
            let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
            match (self, first) {
                (Self::Driver, "ok") => counts.passed += 1,
                (Self::Driver, "FAIL") => counts.failures.push(format!("{of} {rest}")),
                (Self::Driver, "skipped") => counts.skips.push(rest.to_owned()),
                (Self::Libtest, "failures:") => in_list = true,
                (Self::Libtest, "test") => {
                    if let Some((name, reason)) = rest.split_once(" ... ignored") {
                        counts.skips.push(format!("{name}: ignored{reason}"));
                    }
                    if let Some((result, _)) = rest.split_once(" passed;") {
                        let number = result.rsplit(' ').next().and_then(|it| it.parse().ok());
                        counts.passed += number.unwrap_or(0);
                    }
                }
                (Self::Libtest, "") if in_list && line.starts_with("    ") => {
                    counts.failures.push(format!("{of} {}", line.trim()));
                }
                _ => in_list &= line.is_empty(),
            }
        }
        counts
    }
}

/// The steps so far, and how many may run at a time.
#[derive(Debug)]
pub(crate) struct Tally {
    steps: Mutex<Vec<(String, Counts, Duration)>>,
    free: Mutex<usize>,
    freed: Condvar,
    start: Instant,
    /// Where passed steps are noted.
    notes: Option<PathBuf>,
    /// Steps that passed in this state before and need not run again.
    passed: BTreeSet<String>,
}

/// The right to keep one processor busy.
#[derive(Debug)]
pub(crate) struct Slot<'a>(&'a Tally);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file with the state of the checkout and, below it, the steps that passed in it.
const PASSED: &str = "target/xtask/passed";

/// The hash of all files of the checkout that git does not ignore.
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
    /// As many steps at a time as there are processors.
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

    /// The same, and notes which steps passed. If `resume` is set, those noted in the same state of the checkout are
    /// left out.
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

    /// Waits until a processor is free.
    pub(crate) fn slot(&self) -> Slot<'_> {
        let free = lock(&self.free);
        let busy = self.freed.wait_while(free, |free| *free == 0);
        *busy.unwrap_or_else(PoisonError::into_inner) -= 1;
        Slot(self)
    }

    /// Whether a step has passed before and is left out.
    pub(crate) fn has_passed(&self, name: &str) -> bool {
        self.passed.contains(name)
    }

    /// Runs a command as a step.
    pub(crate) fn step(&self, name: &str, format: Format, command: &mut Command) {
        self.work(name, |log| run(format, name, command, log));
    }

    /// Runs any work as a step when a processor is free. An error is one failure.
    pub(crate) fn work(&self, name: &str, work: impl FnOnce(&mut Log) -> Result<Counts>) {
        if !self.has_passed(name) {
            let _slot = self.slot();
            self.wide(name, work);
        }
    }

    /// As [`Tally::work`], for work that waits for others or asks for processors itself.
    pub(crate) fn wide(&self, name: &str, work: impl FnOnce(&mut Log) -> Result<Counts>) {
        ui::note(format_args!("{name}: started"));
        let start = Instant::now();
        let mut log = Log::new();
        let counts = work(&mut log).unwrap_or_else(|error| {
            log.push_str(&format!("error: {error:#}\n"));
            Counts::failure(name)
        });
        let took = start.elapsed();
        let good = counts.failures.is_empty();
        let (verdict, log) = if good {
            ("ok", "")
        } else {
            ("FAILED", log.as_str())
        };
        // Undisturbed by other steps.
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{log}== {name}: {verdict}, {}", ui::seconds(took));
        drop(out);
        let mut steps = lock(&self.steps);
        if let Some(notes) = &self.notes
            && good
            && counts.forbidden_skips().next().is_none()
        {
            let file = std::fs::File::options().append(true).open(notes);
            let _ = file.and_then(|mut file| writeln!(file, "{name}"));
        }
        steps.push((name.to_owned(), counts, took));
    }

    /// Prints the steps, every skip, what failed, and the counts. Returns whether all passed; if `complete` is set, skips
    /// for lack of a tool are failures.
    pub(crate) fn finish(self, complete: bool) -> bool {
        let steps = lock(&self.steps);
        let mut total = Counts::default();
        let width = steps.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
        println!("{:width$}  {:>10}  passed  failed  skipped", "step", "time");
        for (name, counts, took) in &*steps {
            println!(
                "{name:width$}  {:>10}  {:6}  {:6}  {:7}",
                ui::seconds(*took),
                counts.passed,
                counts.failures.len(),
                counts.skips.len()
            );
            total.add(counts.clone());
        }
        println!("by the clock: {}", ui::seconds(self.start.elapsed()));
        if !self.passed.is_empty() {
            println!("left out: {} steps that passed before", self.passed.len());
        }
        for skip in &total.skips {
            println!("skipped: {skip}");
        }
        if complete {
            let skips = total.forbidden_skips();
            let skips = skips.map(|skip| format!("skipped, which CI must not: {skip}"));
            let skips: Vec<_> = skips.collect();
            total.failures.extend(skips);
        }
        for failure in &total.failures {
            println!("FAILED: {failure}");
        }
        let failed = total.failures.len();
        println!(
            "{} passed, {failed} failed, {} skipped",
            total.passed,
            total.skips.len()
        );
        failed == 0
    }
}

/// Runs a command, keeps what it prints, and counts it as the tests of `of`.
pub(crate) fn run(
    format: Format,
    of: &str,
    command: &mut Command,
    log: &mut Log,
) -> Result<Counts> {
    // One pipe for both, so that lines keep their order.
    let (mut reader, writer) = std::io::pipe().context("making a pipe")?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let child = command.spawn();
    // The command holds the pipe's other end as well, which would never close.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.with_context(|| format!("starting {command:?}"))?;
    let mut said = Vec::new();
    reader.read_to_end(&mut said)?;
    let status = child.wait()?;
    let said = String::from_utf8_lossy(&said);
    log.push_str(&said);
    let mut counts = format.count(of, &said);
    if !status.success() && counts.failures.is_empty() {
        counts.failures.push(format!("{of} ended with {status}"));
    } else if format == Format::Whole {
        counts.passed += 1;
    } else if format == Format::Driver && counts == Counts::default() {
        counts.failures.push(format!("{of} reported no test"));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_or_silent_program_is_a_failure() {
        for (format, script, passed, failures) in [
            (Format::Libtest, "exit 101", 0, 1),
            (Format::Driver, "true", 0, 1),
            (Format::Whole, "exit 1", 0, 1),
            (Format::Whole, "true", 1, 0),
            (Format::Driver, "echo ok a; exit 1", 1, 1),
            (
                Format::Driver,
                "echo ok a; echo 'FAIL b: why'; echo 'skipped c: old'; exit 1",
                1,
                1,
            ),
        ] {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let counts = run(format, "sh", &mut command, &mut Log::new()).unwrap();
            assert_eq!(
                (counts.passed, counts.failures.len()),
                (passed, failures),
                "{script}"
            );
        }
    }

    #[test]
    fn steps_that_passed_are_left_out_until_a_file_changes() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        std::fs::write(root.join(".gitignore"), "target\n").unwrap();
        let mut git = Command::new("git");
        assert!(
            git.args(["init", "--quiet"])
                .arg(root)
                .status()
                .unwrap()
                .success()
        );
        let tally = Tally::noting(root, false);
        tally.work("good", |_| Ok(Counts::one()));
        tally.work("bad", |_| Ok(Counts::failure("it")));
        tally.work("skipping", |_| Ok(Counts::skip("no valgrind")));
        let again = Tally::noting(root, true);
        let left_out = ["good", "bad", "skipping"].map(|name| again.has_passed(name));
        assert_eq!(left_out, [true, false, false]);
        std::fs::write(root.join("new"), "").unwrap();
        assert!(!Tally::noting(root, true).has_passed("good"));
    }

    #[test]
    fn libtest_is_counted() {
        let text = "running 3 tests\ntest a ... ok\ntest b ... ignored, no GPU\ntest c ... FAILED\n\nfailures:\n\n\
            ---- c stdout ----\n    assertion failed\n\n\nfailures:\n    c\n\n\
            test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured\ntest result: ok. 12 passed; 0 failed";
        let mut counts = Format::Libtest.count("here", text);
        assert_eq!(
            (counts.passed, &*counts.failures),
            (13, &["here c".to_owned()][..])
        );
        assert_eq!(counts.skips, ["b: ignored, no GPU"]);
        counts.own_skips("one: no clang\n");
        assert_eq!((counts.passed, counts.skips.len()), (12, 2));
        assert_eq!(
            counts.forbidden_skips().collect::<Vec<_>>(),
            ["one: no clang"]
        );
    }
}
