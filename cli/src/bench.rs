//! `xla-ffi bench`: measures the time of a call to a handler.

use crate::call::{CallArgs, Prepared, check};
use crate::child_process;
use crate::engine;
use crate::output;
use crate::report_format::TextOrJson;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The value of `schema` in the JSON output.
pub(crate) const SCHEMA: &str = "xla-ffi-bench-1";

/// The shortest interval between two messages to the parent process that report progress.
const BEAT: Duration = Duration::from_millis(100);

/// Command line of `bench`.
#[derive(clap::Args)]
#[command(mut_arg("engine", |arg| arg.hide(true)), mut_arg("device", |arg| arg.hide(true)))]
pub(crate) struct Args {
    #[command(flatten)]
    call: CallArgs,
    /// Measure this many calls, up to 100 million.
    #[arg(long, value_name = "N", help_heading = "Measurement", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    calls: u32,
    /// Make this many warm-up calls first.
    #[arg(long, value_name = "N", help_heading = "Measurement")]
    #[arg(default_value_t = 100)]
    warmup: u32,
    #[command(flatten)]
    pub(crate) output: TextOrJson,
    /// Call the handler in this process, for debuggers; a crash then ends xla-ffi itself.
    #[arg(long = "in-this-process", help_heading = "Limits")]
    in_this_process: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    engine::only_embedded(&args.call, "bench");
    if let Some(pipe) = args.call.supervised {
        return Ok(child_process::child(pipe, || here(args)));
    }
    if !args.in_this_process {
        return child_process::rerun(Duration::from_secs(args.call.time_limit));
    }
    here(args)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures the calls in this process, and writes the result to standard output.
fn here(args: &Args) -> Result<()> {
    if args.output.is_json() {
        output::redirect_stdout()?;
    }
    // The memory is allocated before the handler runs, so that a lack of memory is not attributed to the handler.
    let mut nanoseconds: Vec<u64> = vec![];
    let calls = args.calls as usize;
    nanoseconds.try_reserve_exact(calls).with_context(|| {
        format!("not enough memory for the times of {calls} calls: reduce --calls")
    })?;
    let prepared = Prepared::new(&args.call)?;
    let runtime = prepared.runtime.clone();
    output::calls(format_args!("the handler"));
    let mut call = prepared.call().prepare()?;
    drop(prepared);
    output::calls(format_args!("the handler"));
    let mut beat = Instant::now();
    // A message to the parent restarts the time limit, so that the limit applies to single calls.
    let mut goes_on = |now: Instant| {
        if now.duration_since(beat) > BEAT {
            beat = now;
            output::calls(format_args!("the handler"));
        }
    };
    for _ in 0..args.warmup {
        call.invoke()?;
        goes_on(Instant::now());
    }
    for _ in 0..calls {
        let start = Instant::now();
        let outcome = call.invoke();
        let end = Instant::now();
        nanoseconds.push(end.duration_since(start).as_nanos() as u64);
        outcome?;
        goes_on(end);
    }
    output::enters(format_args!("the handler, after its last call,"));
    call.into_rets()?;
    check(&runtime)?;
    let Some(summary) = Summary::of(nanoseconds, clock()) else {
        bail!("no call was measured: increase --calls")
    };
    if args.output.is_json() {
        output::json(&summary.json())?;
    } else {
        output::text(&summary.text())?;
    }
    Ok(())
}

/// Returns the cost of reading the clock in nanoseconds, as the smallest difference between two readings.
fn clock() -> u64 {
    let difference = |_| {
        let start = Instant::now();
        Instant::now().duration_since(start).as_nanos() as u64
    };
    (0..10_000).map(difference).min().unwrap_or(0)
}

/// The times of all calls in nanoseconds, sorted. Each time includes the cost of reading the clock.
struct Summary {
    sorted: Vec<u64>,
    clock: u64,
}

impl Summary {
    fn of(mut times: Vec<u64>, clock: u64) -> Option<Self> {
        times.sort_unstable();
        let sorted = times;
        (!sorted.is_empty()).then_some(Self { sorted, clock })
    }

    /// Returns the time in nanoseconds that `percent` of the calls did not exceed.
    fn percentile(&self, percent: f64) -> u64 {
        let last = self.sorted.len() - 1;
        let at = (percent / 100.0 * last as f64).round() as usize;
        self.sorted[at.min(last)]
    }

    fn mean(&self) -> f64 {
        let sum: u128 = self.sorted.iter().map(|time| u128::from(*time)).sum();
        sum as f64 / self.sorted.len() as f64
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "schema": SCHEMA,
            "exit": output::ok(),
            "calls": self.sorted.len(),
            "unit": "ns",
            "clock": self.clock,
            "mean": self.mean(),
            "min": self.percentile(0.0),
            "p50": self.percentile(50.0),
            "p90": self.percentile(90.0),
            "p99": self.percentile(99.0),
            "p99.9": self.percentile(99.9),
            "max": self.percentile(100.0),
        })
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} calls, mean {:.0} ns per call, including {} ns for reading the clock\n",
            self.sorted.len(),
            self.mean(),
            self.clock
        );
        for (name, percent) in [
            ("min", 0.0),
            ("50 %", 50.0),
            ("90 %", 90.0),
            ("99 %", 99.0),
            ("99.9 %", 99.9),
            ("max", 100.0),
        ] {
            text += &format!("{name:>8} {:>12} ns\n", self.percentile(percent));
        }
        text
    }
}
