//! What calls on the embedded runtime cost on one thread and on two.

use super::{build, report, save};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The kinds of calls: the name in the report, and in words.
const KINDS: [(&str, &str); 5] = [
    ("plain", "a plain handler"),
    ("stateful", "one with state"),
    ("user_data", "one with user data"),
    ("absent", "one whose user data is absent"),
    ("internal", "one of the internal API"),
];

/// A call on each of two threads, by one on each of two processes side by side.
const TWO_THREADS: f64 = 1.2;
/// A call beside a hundred other runtimes, by one without them.
const CROWDED: f64 = 1.5;
/// `Call::run`, by a prepared call.
const RUN: f64 = 40.0;

/// 64 MB through a handler, by what the handler does alone.
const LARGE: f64 = 1.25;

/// Builds and runs the calls; what is over budget.
pub(super) fn run(root: &Path, out: &Path) -> Result<Vec<String>> {
    let release = build(root, "xla-ffi-benches-embedded")?;
    let report = report(&mut Command::new(release.join("embedded")))?;
    save(out, "embedded.json", &report)?;
    println!("\na prepared call on the embedded runtime, ns, least of many rounds");
    println!(
        "{:32}{:>9}{:>13}{:>15}{:>14}",
        "", "1 thread", "2 threads", "2 processes", "101 runtimes"
    );
    let mut misses = vec![];
    for (name, words) in KINDS {
        let row = Row::read(&report[name]).with_context(|| format!("no costs of {name}"))?;
        println!(
            "{words:32}{:>9.1}{:>13.1}{:>15.1}{:>14.1}",
            row.one, row.threads, row.processes, row.crowded
        );
        misses.extend(row.misses(words));
    }
    let cost = |name: &str| report["run"][name].as_f64().context("no cost of Call::run");
    let (run, prepared) = (cost("run")?, cost("prepared")?);
    println!(
        "Call::run: {run:.1} ns, {:.1} of a prepared call, at most {RUN}\n",
        run / prepared
    );
    if run > RUN * prepared {
        misses.push(format!(
            "Call::run: {run:.1} ns, a prepared call takes {prepared:.1} ns, at most {RUN} times that"
        ));
    }
    let cost = |name: &str| report["large"][name].as_f64().context("no cost of 64 MB");
    let (direct, call) = (cost("direct")?, cost("call")?);
    println!(
        "64 MB through a handler that copies them: {call:.2} ms, {direct:.2} ms without a host, at most \
         {LARGE} times that\n"
    );
    if call > LARGE * direct {
        misses.push(format!(
            "64 MB through a handler: {call:.2} ms, {direct:.2} ms without a host, at most {LARGE} times that"
        ));
    }
    Ok(misses)
}

/// What one kind costs.
struct Row {
    one: f64,
    threads: f64,
    processes: f64,
    crowded: f64,
}

impl Row {
    fn read(row: &Value) -> Option<Self> {
        let cost = |name: &str| row[name].as_f64();
        Some(Self {
            one: cost("one")?,
            threads: cost("threads")?,
            processes: cost("processes")?,
            crowded: cost("crowded")?,
        })
    }

    fn misses(&self, words: &str) -> Vec<String> {
        let above = |what: &str, cost: f64, by: f64, limit: f64| {
            (cost > limit * by).then(|| {
                format!("{words}: {what} {cost:.1} ns, {by:.1} without, at most {limit} times that")
            })
        };
        [
            above("beside a thread", self.threads, self.processes, TWO_THREADS),
            above("beside 100 runtimes", self.crowded, self.one, CROWDED),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
