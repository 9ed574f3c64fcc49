//! What passed, failed and was skipped, read from what other programs print.

use std::time::{Duration, Instant};

/// Counts of one step, or of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// The names of those that failed, as far as they are told.
    pub(crate) failures: Vec<String>,
    /// One reason a skipped test.
    pub(crate) skips: Vec<String>,
    /// How long single tests took, where that can be seen.
    pub(crate) times: Vec<(Duration, String)>,
    /// Processor time of the programs that were started, where the system tells it.
    pub(crate) processor: Duration,
}

impl Counts {
    /// A step that is one check: it passed or failed as a whole.
    pub(crate) fn one(passed: bool) -> Self {
        Self {
            passed: usize::from(passed),
            failed: usize::from(!passed),
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.skips.extend(other.skips);
        self.times.extend(other.times);
        self.processor += other.processor;
    }

    /// Moves tests that skipped themselves from passed to skipped. Each wrote a line `NAME: REASON`
    /// into the file that `XLA_FFI_SKIPS` names; libtest cannot know.
    pub(crate) fn own_skips(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            self.passed = self.passed.saturating_sub(1);
            self.skips.push(line.trim().to_owned());
        }
    }
}

/// How a step's output is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The exit status is the only result.
    Whole,
    /// libtest's `test … ok` and `test result:` lines, tests side by side.
    Libtest,
    /// The same of tests that run one after the other: their names come when they start.
    Serial,
    /// Lines `ok NAME`, `FAIL NAME: …`, `skipped NAME: …` of our own drivers.
    Driver,
}

/// Reads a program's lines as they come.
#[derive(Debug)]
pub(crate) struct Reader {
    format: Format,
    counts: Counts,
    /// Whose tests these are.
    of: String,
    /// The test that runs, and since when.
    running: Option<(String, Instant)>,
    /// Names of libtest's last list `failures:`.
    listed: Option<Vec<String>>,
    /// When the last verdict of a driver came.
    last: Instant,
}

impl Reader {
    /// A reader for the tests of `of`, which may be empty.
    pub(crate) fn new(format: Format, of: &str) -> Self {
        Self {
            format,
            counts: Counts::default(),
            of: of.to_owned(),
            running: None,
            listed: None,
            last: Instant::now(),
        }
    }

    /// Takes a line, the first byte of which came at `since`.
    pub(crate) fn line(&mut self, line: &str, since: Instant) {
        match self.format {
            Format::Whole => {}
            Format::Libtest | Format::Serial => self.libtest(line, since),
            Format::Driver => self.driver(line, since),
        }
    }

    /// What was counted; a test that had begun and did not end is said to have failed.
    pub(crate) fn finish(mut self, succeeded: bool) -> Counts {
        if let Some((name, _)) = self.running.take()
            && !succeeded
        {
            self.counts.failed += 1;
            let name = self.name(&name);
            self.counts.failures.push(format!("{name} (did not end)"));
        }
        self.counts
    }

    fn name(&self, test: &str) -> String {
        if self.of.is_empty() {
            test.to_owned()
        } else {
            format!("{} {test}", self.of)
        }
    }

    fn ended(&mut self, at: Instant) {
        if let Some((name, since)) = self.running.take() {
            let name = self.name(&name);
            self.counts.times.push((at - since, name));
        }
    }

    fn libtest(&mut self, line: &str, since: Instant) {
        // Cargo's own words before each program.
        let words = line.trim_start();
        if let Some(program) = words.strip_prefix("Running ")
            && let Some((program, _)) = program.split_once(" (")
        {
            self.of = program.trim_start_matches("unittests ").to_owned();
        } else if let Some(package) = words.strip_prefix("Doc-tests ") {
            self.of = format!("doc-tests of {package}");
        }
        if line == "failures:" {
            // The first such heading is followed by what the tests said, the second by their names.
            self.listed = Some(vec![]);
        } else if let Some(names) = &mut self.listed {
            if let Some(name) = line.strip_prefix("    ") {
                names.push(name.to_owned());
            } else if !line.is_empty() && !line.starts_with("test result: ") {
                names.clear();
            }
        }
        let Some(test) = line.strip_prefix("test ") else {
            return;
        };
        if let Some(result) = test.strip_prefix("result: ") {
            self.ended(since);
            let number = |what: &str| {
                result
                    .split([';', '.'])
                    .filter_map(|part| part.trim().strip_suffix(what))
                    .find_map(|number| number.trim().parse::<usize>().ok())
                    .unwrap_or(0)
            };
            self.counts.passed += number(" passed");
            self.counts.failed += number(" failed");
            for name in self.listed.take().unwrap_or_default() {
                let name = self.name(&name);
                self.counts.failures.push(name);
            }
            return;
        }
        let Some((name, verdict)) = test.split_once(" ... ") else {
            return;
        };
        if self.format == Format::Serial {
            self.ended(since);
            self.running = Some((name.to_owned(), since));
        }
        if let Some(reason) = verdict.strip_prefix("ignored") {
            let reason = reason.trim_start_matches([',', ' ']);
            let reason = if reason.is_empty() {
                "ignored without a reason"
            } else {
                reason
            };
            self.counts.skips.push(format!("{name}: {reason}"));
        }
    }

    fn driver(&mut self, line: &str, at: Instant) {
        let Some((verdict, rest)) = line.split_once(' ') else {
            return;
        };
        let told = rest.split_once(": ").map_or(rest, |(name, _)| name);
        match verdict {
            "ok" => self.counts.passed += 1,
            "FAIL" => {
                self.counts.failed += 1;
                let name = self.name(told);
                self.counts.failures.push(name);
            }
            "skipped" => self.counts.skips.push(rest.to_owned()),
            _ => return,
        }
        let name = self.name(told);
        self.counts.times.push((at - self.last, name));
        self.last = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(format: Format, text: &str) -> Counts {
        let mut reader = Reader::new(format, "here");
        let now = Instant::now();
        text.lines().for_each(|line| reader.line(line, now));
        reader.finish(true)
    }

    const LIBTEST: &str = "running 3 tests\ntest a ... ok\ntest b ... ignored, no GPU here\n\
        test c ... FAILED\n\nfailures:\n\n---- c stdout ----\n    assertion failed\n\n\nfailures:\n    c\n\n\
        test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.0s\n\
        test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.0s";

    #[test]
    fn libtest_lines_are_summed() {
        let counts = counted(Format::Libtest, LIBTEST);
        assert_eq!((counts.passed, counts.failed), (13, 1));
        assert_eq!(counts.skips, ["b: no GPU here"]);
        assert_eq!(counts.failures, ["here c"]);
        assert!(counts.times.is_empty());
    }

    #[test]
    fn tests_one_after_the_other_are_timed() {
        let start = Instant::now();
        let mut reader = Reader::new(Format::Serial, "here");
        for (line, after) in [
            ("test a ... ok", 0),
            ("test b ... noise of a child", 3),
            ("ok", 4),
            ("test c ... ok", 10),
            ("", 11),
            ("test result: ok. 3 passed; 0 failed; 0 ignored;", 11),
        ] {
            reader.line(line, start + Duration::from_secs(after));
        }
        let counts = reader.finish(true);
        let seconds: Vec<_> = counts
            .times
            .iter()
            .map(|(time, _)| time.as_secs())
            .collect();
        assert_eq!(seconds, [3, 7, 1]);
        assert_eq!(counts.times[1].1, "here b");
        assert_eq!(counts.passed, 3);
    }

    #[test]
    fn a_test_that_takes_its_process_down_is_named() {
        let mut reader = Reader::new(Format::Serial, "here");
        reader.line("test a ... ", Instant::now());
        let counts = reader.finish(false);
        assert_eq!(counts.failed, 1);
        assert_eq!(counts.failures, ["here a (did not end)"]);
    }

    #[test]
    fn programs_are_named_by_cargo() {
        let text = "     Running tests/pjrt.rs (target/debug/deps/pjrt-5e)\n".to_owned() + LIBTEST;
        assert_eq!(
            counted(Format::Libtest, &text).failures,
            ["tests/pjrt.rs c"]
        );
    }

    #[test]
    fn driver_lines_are_summed() {
        let counts = counted(
            Format::Driver,
            "ok a\nnoise\nFAIL b: why\nskipped c: too old\nok d",
        );
        assert_eq!((counts.passed, counts.failed), (2, 1));
        assert_eq!(counts.skips, ["c: too old"]);
        assert_eq!(counts.failures, ["here b"]);
        assert_eq!(counts.times.len(), 4);
    }

    #[test]
    fn a_test_that_skips_itself_did_not_pass() {
        let mut counts = Counts {
            passed: 3,
            ..Counts::default()
        };
        counts.own_skips("one: no clang\n\ntwo: no valgrind\n");
        assert_eq!(counts.passed, 1);
        assert_eq!(counts.skips, ["one: no clang", "two: no valgrind"]);
    }
}
