//! Measures calls on the embedded runtime, on one thread and on two threads.

use super::{build, report, save};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// The kinds of calls. Each has a name in the report and a description.
const KINDS: [(&str, &str); 5] = [
    ("plain", "a plain handler"),
    ("stateful", "one with state"),
    ("user_data", "one with user data"),
    ("absent", "one whose user data is absent"),
    ("internal", "one of the internal API"),
];

/// The costs of frames and requests. Each has a path in the report, a description, and a limit in nanoseconds.
const PARTS: [(&str, &str, f64); 5] = [
    (
        "/frames/prepared",
        "a prepared call, above the direct one",
        20.0,
    ),
    (
        "/frames/build",
        "a frame of 64 buffers and 64 attributes",
        3000.0,
    ),
    (
        "/frames/update",
        "64 data pointers replaced in place",
        100.0,
    ),
    ("/requests/time_limit", "a time limit of one run", 80.0),
    ("/requests/one_in_16", "one in 16 runs observed", 10.0),
];

/// The maximum cost of a call while a second thread makes calls, relative to the cost on a single thread.
const TWO_THREADS: f64 = 1.5;
/// The maximum cost of a call if a hundred other runtimes exist, relative to the cost with a single runtime.
const CROWDED: f64 = 1.5;
/// The maximum cost of `Call::run`, relative to the cost of a prepared call.
const RUN: f64 = 40.0;

/// Builds and runs the measurements, and returns the costs that exceed their limits.
pub(super) fn run(root: &Path, out: &Path) -> Result<Vec<String>> {
    let release = build(root, "xla-ffi-benches-embedded")?;
    let report = report(&mut Command::new(release.join("embedded")))?;
    save(out, "embedded.json", &report)?;
    println!("\na prepared call on the embedded runtime, ns, least of many rounds");
    println!(
        "{:32}{:>9}{:>13}{:>14}",
        "", "1 thread", "2 threads", "101 runtimes"
    );
    let mut misses = vec![];
    for (name, words) in KINDS {
        let row = &report[name];
        let cost = |of: &str| {
            row[of]
                .as_f64()
                .with_context(|| format!("no {of} of {name}"))
        };
        let (one, threads, crowded) = (cost("one")?, cost("threads")?, cost("crowded")?);
        println!("{words:32}{one:>9.1}{threads:>13.1}{crowded:>14.1}");
        for (what, cost, limit) in [
            ("beside a thread", threads, TWO_THREADS),
            ("beside 100 runtimes", crowded, CROWDED),
        ] {
            if cost > limit * one {
                misses.push(format!(
                    "{words}: {what} {cost:.1} ns, {one:.1} without, at most {limit} times that"
                ));
            }
        }
    }
    for (name, words, limit) in PARTS {
        let cost = report.pointer(name).and_then(|cost| cost.as_f64());
        let cost = cost.with_context(|| format!("no cost of {name}"))?;
        println!("{words:44}{cost:>9.1} ns   at most {limit:>5.0} ns");
        if cost > limit {
            misses.push(format!("{words}: {cost:.1} ns, at most {limit} ns"));
        }
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
    Ok(misses)
}
