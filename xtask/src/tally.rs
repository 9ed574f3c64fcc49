//! Counting what passed, failed and was skipped, over steps that are other programs.

use crate::ui;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Counts of one step, or of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// One reason a skipped test.
    pub(crate) skips: Vec<String>,
}

impl Counts {
    /// A step that is one check: it passed or failed as a whole.
    pub(crate) fn one(passed: bool) -> Self {
        Self {
            passed: usize::from(passed),
            failed: usize::from(!passed),
            skips: Vec::new(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skips.extend(other.skips.iter().cloned());
    }
}

/// How a step's output is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The exit status is the only result.
    Whole,
    /// libtest's `test … ok` and `test result:` lines.
    Libtest,
    /// Lines `ok NAME`, `FAIL NAME: …`, `skipped NAME: …` of our own drivers.
    Driver,
}

/// The steps so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    steps: Vec<(String, Counts, Duration)>,
}

impl Tally {
    /// Runs a command as a step, shows its output, counts it, and says how long it took.
    pub(crate) fn step(&mut self, name: &str, format: Format, command: &mut Command) {
        self.work(name, || run(format, command));
    }

    /// Runs any work as a step. An error is one failure.
    pub(crate) fn work(&mut self, name: &str, work: impl FnOnce() -> Result<Counts>) {
        println!("== {name}");
        let start = Instant::now();
        let counts = work().unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            Counts::one(false)
        });
        let took = start.elapsed();
        let verdict = if counts.failed == 0 { "ok" } else { "FAILED" };
        println!("== {name}: {verdict}, {}\n", ui::seconds(took));
        self.steps.push((name.to_owned(), counts, took));
    }

    /// Prints the steps, every skip, and the last line; tells whether all passed.
    pub(crate) fn finish(&self) -> bool {
        let mut total = Counts::default();
        let width = self
            .steps
            .iter()
            .map(|(name, ..)| name.len())
            .max()
            .unwrap_or(0);
        println!("{:width$}  {:>10}  passed  failed  skipped", "step", "time");
        for (name, counts, took) in &self.steps {
            println!(
                "{name:width$}  {:>10}  {:6}  {:6}  {:7}",
                ui::seconds(*took),
                counts.passed,
                counts.failed,
                counts.skips.len()
            );
            total.add(counts);
        }
        for skip in &total.skips {
            println!("skipped: {skip}");
        }
        let all: Duration = self.steps.iter().map(|(.., took)| *took).sum();
        println!("all steps: {}", ui::seconds(all));
        println!(
            "{} passed, {} failed, {} skipped",
            total.passed,
            total.failed,
            total.skips.len()
        );
        total.failed == 0
    }
}

/// Runs a command, passes its standard output on line by line, and counts it.
pub(crate) fn run(format: Format, command: &mut Command) -> Result<Counts> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    let mut counts = Counts::default();
    if let Some(stdout) = child.stdout.take() {
        let mut out = std::io::stdout().lock();
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.with_context(|| format!("reading what {program} prints"))?;
            let line = String::from_utf8_lossy(&line);
            writeln!(out, "{line}")?;
            count_line(format, &line, &mut counts);
        }
        out.flush()?;
    }
    let status = child
        .wait()
        .with_context(|| format!("waiting for {program}"))?;
    // A step that fails without a failed test did not come so far: that is a failure too.
    if !status.success() && counts.failed == 0 {
        eprintln!("{program} ended with {status}");
        counts.failed += 1;
    } else if format == Format::Whole {
        counts.passed += 1;
    } else if status.success() && counts == Counts::default() {
        eprintln!("{program} reported no test at all");
        counts.failed += 1;
    }
    Ok(counts)
}

fn count_line(format: Format, line: &str, counts: &mut Counts) {
    match format {
        Format::Whole => {}
        Format::Libtest => {
            let Some(test) = line.strip_prefix("test ") else {
                return;
            };
            if let Some(result) = test.strip_prefix("result: ") {
                let number = |what: &str| {
                    result
                        .split([';', '.'])
                        .filter_map(|part| part.trim().strip_suffix(what))
                        .find_map(|number| number.trim().parse::<usize>().ok())
                        .unwrap_or(0)
                };
                counts.passed += number(" passed");
                counts.failed += number(" failed");
            } else if let Some((name, verdict)) = test.split_once(" ... ignored") {
                let reason = verdict.trim_start_matches([',', ' ']);
                let reason = if reason.is_empty() {
                    "ignored without a reason"
                } else {
                    reason
                };
                counts.skips.push(format!("{name}: {reason}"));
            }
        }
        Format::Driver => {
            if line.starts_with("ok ") {
                counts.passed += 1;
            } else if line.starts_with("FAIL ") {
                counts.failed += 1;
            } else if let Some(skip) = line.strip_prefix("skipped ") {
                counts.skips.push(skip.to_owned());
            }
        }
    }
}

/// Moves tests that skipped themselves from passed to skipped. Each wrote a line `NAME: REASON` into the file that
/// `XLA_FFI_SKIPS` names; libtest cannot know.
pub(crate) fn own_skips(counts: &mut Counts, text: &str) {
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        counts.passed = counts.passed.saturating_sub(1);
        counts.skips.push(line.trim().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(format: Format, text: &str) -> Counts {
        let mut counts = Counts::default();
        text.lines()
            .for_each(|line| count_line(format, line, &mut counts));
        counts
    }

    #[test]
    fn libtest_lines_are_summed() {
        let counts = counted(
            Format::Libtest,
            "running 3 tests\ntest a ... ok\ntest b ... ignored, no GPU here\ntest c ... FAILED\n\
             test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.0s\n\
             test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.0s",
        );
        assert_eq!(
            counts,
            Counts {
                passed: 13,
                failed: 1,
                skips: vec!["b: no GPU here".into()]
            }
        );
    }

    #[test]
    fn driver_lines_are_summed() {
        let counts = counted(
            Format::Driver,
            "ok a\nnoise\nFAIL b: why\nskipped c: too old\nok d",
        );
        assert_eq!(
            counts,
            Counts {
                passed: 2,
                failed: 1,
                skips: vec!["c: too old".into()]
            }
        );
    }

    #[test]
    fn a_test_that_skips_itself_did_not_pass() {
        let mut counts = Counts {
            passed: 3,
            failed: 0,
            skips: Vec::new(),
        };
        own_skips(&mut counts, "one: no clang\n\ntwo: no valgrind\n");
        assert_eq!(counts.passed, 1);
        assert_eq!(counts.skips, ["one: no clang", "two: no valgrind"]);
    }

    #[test]
    fn a_failing_or_silent_step_is_a_failure() {
        let sh = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        assert_eq!(run(Format::Libtest, &mut sh("exit 101")).unwrap().failed, 1);
        assert_eq!(run(Format::Libtest, &mut sh("true")).unwrap().failed, 1);
        assert_eq!(
            run(Format::Whole, &mut sh("exit 1")).unwrap(),
            Counts::one(false)
        );
        assert_eq!(
            run(Format::Whole, &mut sh("true")).unwrap(),
            Counts::one(true)
        );
        assert_eq!(
            run(Format::Driver, &mut sh("echo ok a; exit 1"))
                .unwrap()
                .failed,
            1
        );
    }
}
