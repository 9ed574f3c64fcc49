//! Steps side by side: what they say is kept until they end, what they find is counted.

use crate::counts::{Counts, Format, Reader};
use crate::ui;
use anyhow::{Context, Result};
use std::fmt::Display;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many of the slowest tests are told.
const SLOWEST: usize = 10;

/// What CI may skip: parts of reasons. Anything else that CI lacks is a failure there.
const CI_MAY_SKIP: &[&str] = &[
    // What only a GPU can show.
    "no GPU",
    "NVIDIA's driver",
    "a CPU has no streams",
    "a CPU has no command buffers",
    "there is nothing of a GPU to check",
    "this machine has one device",
    "its kernel is the host's here",
    // What another run of the same step shows.
    "command buffers are another run's",
    "the manifest names platform CUDA alone",
    // Languages of mirrors, whose wheels the index has not for every machine.
    "no zig (set XLA_FFI_ZIG",
    "no go (set XLA_FFI_GO",
    // What the oldest jaxlib lacks.
    "no state in this jaxlib",
    "no futures in this jaxlib",
    "no tokens in this jax",
    "the headers of this jaxlib have other names for buffers",
    "this jaxlib lacks it: ",
    "this jax's own ffi_call is another one",
    "this jaxlib registers no types for Python",
    "this jax has no Explicit axes",
    "this jax exports nothing for an abstract mesh",
    // What that XLA cannot do; the test itself bounds how much it may be.
    "turn packed arrays, which this XLA's compiler cannot",
];

/// The steps so far, and how many may run at a time.
#[derive(Debug)]
pub(crate) struct Tally {
    steps: Mutex<Vec<(String, Counts, Duration)>>,
    free: Mutex<usize>,
    freed: Condvar,
    start: Instant,
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

/// What a step says. It is shown when the step ends, so that steps side by side stay readable.
#[derive(Debug, Default)]
pub(crate) struct Log(Vec<u8>);

impl Log {
    pub(crate) fn line(&mut self, line: impl Display) {
        let _ = writeln!(self.0, "{line}");
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// Forgets the lines that say nothing of a test: what passes may print thousands.
    pub(crate) fn keep_verdicts(&mut self) {
        let text = self.text();
        let lines = text.lines();
        self.0.clear();
        for line in lines.filter(|line| line.starts_with("test ")) {
            // Behind the name comes what the test's own children print, where it was not caught.
            match line.split_once(" ... ") {
                Some((name, said)) if !said.starts_with("ok") => {
                    self.line(format_args!("{name} ..."))
                }
                _ => self.line(line),
            }
        }
    }

    /// Shows it, undisturbed by others.
    pub(crate) fn show(&self) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(&self.0);
        let _ = out.flush();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tally {
    /// As many steps at a time as there are processors.
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            steps: Mutex::default(),
            free: Mutex::new(cores),
            freed: Condvar::new(),
            start: Instant::now(),
        }
    }

    /// Waits until a processor is free.
    pub(crate) fn slot(&self) -> Slot<'_> {
        let free = lock(&self.free);
        let busy = self.freed.wait_while(free, |free| *free == 0);
        *busy.unwrap_or_else(PoisonError::into_inner) -= 1;
        Slot(self)
    }

    /// Runs a command as a step, counts it, and says how long it took.
    pub(crate) fn step(&self, name: &str, format: Format, command: &mut Command) {
        self.work(name, |log| run(format, name, command, log));
    }

    /// Runs any work as a step, when a processor is free for it. An error is one failure.
    pub(crate) fn work(&self, name: &str, work: impl FnOnce(&mut Log) -> Result<Counts>) {
        let _slot = self.slot();
        self.wide(name, work);
    }

    /// As [`Tally::work`], for work that waits for others or asks for processors itself.
    pub(crate) fn wide(&self, name: &str, work: impl FnOnce(&mut Log) -> Result<Counts>) {
        ui::note(format_args!("{name}: started"));
        let start = Instant::now();
        let mut log = Log::default();
        log.line(format_args!("== {name}"));
        let mut counts = work(&mut log).unwrap_or_else(|error| {
            log.line(format_args!("error: {error:#}"));
            Counts::one(false)
        });
        let took = start.elapsed();
        if counts.failed > 0 && counts.failures.is_empty() {
            counts.failures.push(format!("the step {name}"));
        }
        let verdict = if counts.failed == 0 { "ok" } else { "FAILED" };
        log.line(format_args!(
            "== {name}: {verdict}, {}\n",
            ui::seconds(took)
        ));
        log.show();
        lock(&self.steps).push((name.to_owned(), counts, took));
    }

    /// Prints the steps, every skip, the slowest tests, what failed, and the last line; tells whether
    /// all is as it must be.
    pub(crate) fn finish(self, in_ci: bool) -> bool {
        let steps = lock(&self.steps);
        let mut total = Counts::default();
        let width = steps.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
        println!(
            "{:width$}  {:>10}  {:>10}  passed  failed  skipped",
            "step", "time", "processor"
        );
        for (name, counts, took) in &*steps {
            println!(
                "{name:width$}  {:>10}  {:>10}  {:6}  {:6}  {:7}",
                ui::seconds(*took),
                ui::seconds(counts.processor),
                counts.passed,
                counts.failed,
                counts.skips.len()
            );
            total.add(counts.clone());
        }
        println!("by the clock: {}", ui::seconds(self.start.elapsed()));
        if let Some(time) = processor_time("self") {
            println!("processor time: {}", ui::seconds(time));
        }
        total
            .times
            .sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        println!("the slowest tests:");
        for (time, name) in total.times.iter().take(SLOWEST) {
            println!("  {:>10}  {name}", ui::seconds(*time));
        }
        for skip in &total.skips {
            println!("skipped: {skip}");
        }
        if in_ci {
            let lacking = lacking_in_ci(&total.skips);
            total.failed += lacking.len();
            total.failures.extend(lacking);
        }
        for failure in &total.failures {
            println!("FAILED: {failure}");
        }
        println!(
            "{} passed, {} failed, {} skipped",
            total.passed,
            total.failed,
            total.skips.len()
        );
        total.failed == 0
    }
}

/// The skips that CI must not have: there everything can be had, and a check that nobody runs is none.
fn lacking_in_ci(skips: &[String]) -> Vec<String> {
    let may = |skip: &String| CI_MAY_SKIP.iter().any(|reason| skip.contains(reason));
    let lacking = skips.iter().filter(|skip| !may(skip));
    lacking
        .map(|skip| format!("skipped, which CI must not: {skip}"))
        .collect()
}

/// The processor time of a process and of its children that ended, where the system tells it.
pub(crate) fn processor_time(process: &str) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which may hold anything, the third field is the first.
    let (_, fields) = text.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks = ticks.map_while(|field| field.parse::<u64>().ok());
    // Linux shows hundredths of seconds to programs, whatever it counts itself.
    Some(Duration::from_millis(10 * ticks.sum::<u64>()))
}

/// Runs a command, keeps what it prints, and counts it as the tests of `of`.
pub(crate) fn run(
    format: Format,
    of: &str,
    command: &mut Command,
    log: &mut Log,
) -> Result<Counts> {
    let program = command.get_program().to_string_lossy().into_owned();
    // One pipe for both, so that lines keep their order.
    let (mut reader, writer) = std::io::pipe().context("making a pipe")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("making a pipe")?)
        .stderr(writer)
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    // The command holds the pipe's other end as well, which would never close.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut tests = Reader::new(format, of);
    let mut line = vec![];
    let mut since = Instant::now();
    let mut chunk = vec![0; 1 << 16];
    loop {
        let read = reader.read(&mut chunk);
        let read = read.with_context(|| format!("reading what {program} prints"))?;
        let now = Instant::now();
        log.bytes(&chunk[..read]);
        for byte in &chunk[..read] {
            if line.is_empty() {
                since = now;
            }
            match byte {
                b'\n' => tests.line(&String::from_utf8_lossy(&std::mem::take(&mut line)), since),
                byte => line.push(*byte),
            }
        }
        if read == 0 {
            break;
        }
    }
    if !line.is_empty() {
        tests.line(&String::from_utf8_lossy(&line), since);
    }
    // It closed its output, so that it has ended or is about to; afterwards nobody can ask any more.
    let processor = processor_time(&child.id().to_string()).unwrap_or_default();
    let status = child
        .wait()
        .with_context(|| format!("waiting for {program}"))?;
    let mut counts = tests.finish(status.success());
    counts.processor = processor;
    // A step that fails without a failed test did not come so far: that is a failure too.
    if !status.success() && counts.failed == 0 {
        log.line(format_args!("{program} ended with {status}"));
        counts.failed += 1;
        counts.failures.push(format!("{of} ended with {status}"));
    } else if format == Format::Whole {
        counts.passed += 1;
    }
    Ok(counts)
}

/// As [`run`]; a program that tells of no test at all failed.
pub(crate) fn run_some(
    format: Format,
    of: &str,
    command: &mut Command,
    log: &mut Log,
) -> Result<Counts> {
    let mut counts = run(format, of, command, log)?;
    if counts.passed + counts.failed + counts.skips.len() == 0 {
        log.line(format_args!("{of} reported no test at all"));
        counts.failed += 1;
        counts
            .failures
            .push(format!("{of} reported no test at all"));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_or_silent_step_is_a_failure() {
        let sh = |format, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            run_some(format, "sh", &mut command, &mut Log::default()).unwrap()
        };
        assert_eq!(sh(Format::Libtest, "exit 101").failed, 1);
        assert_eq!(sh(Format::Libtest, "true").failed, 1);
        assert_eq!(sh(Format::Whole, "exit 1").failed, 1);
        assert_eq!(sh(Format::Whole, "true").passed, 1);
        assert_eq!(sh(Format::Driver, "echo ok a; exit 1").failed, 1);
        let died = sh(Format::Serial, "printf 'test a ... '; kill -9 $$");
        assert_eq!(died.failures, ["sh a (did not end)"]);
    }

    #[test]
    fn what_a_command_says_is_kept_in_order() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; printf three"]);
        let mut log = Log::default();
        run(Format::Whole, "sh", &mut command, &mut log).unwrap();
        assert_eq!(log.0, b"one\ntwo\nthree");
    }

    #[test]
    fn processor_time_is_the_commands_own() {
        let busy = |turns: &str| {
            let mut command = Command::new("sh");
            let script = "i=0; while [ $i -lt $0 ]; do i=$((i + 1)); done; sleep 0.01";
            command.args(["-c", script, turns]);
            let counts = run(Format::Whole, "sh", &mut command, &mut Log::default());
            counts.unwrap().processor
        };
        // Where the system tells nothing both are nothing.
        let (long, short) = (busy("400000"), busy("1"));
        assert!(
            long > short || long.is_zero() && !cfg!(target_os = "linux"),
            "{long:?}"
        );
    }

    #[test]
    fn ci_has_what_tests_need() {
        let skips = ["a: no valgrind", "b: this machine has no GPU"].map(str::to_owned);
        let lacking = lacking_in_ci(&skips);
        assert_eq!(lacking, ["skipped, which CI must not: a: no valgrind"]);
    }

    #[test]
    fn no_more_steps_than_processors() {
        let tally = Tally::new();
        let cores = *lock(&tally.free);
        let slots: Vec<_> = (0..cores).map(|_| tally.slot()).collect();
        assert_eq!(*lock(&tally.free), 0);
        drop(slots);
        drop(tally.slot());
    }
}
