//! Measures calls of the same handlers, written in several languages, with the same call frames.
//!
//! `decode SEED VARIANT=LIBRARY…` prints the cost of each case in each library as JSON; the seed determines the memory
//! order of operands. `cargo xtask bench` builds the libraries and runs this program. Before the measurements, all
//! libraries must decode the same values, and those with all checks must reject the same frames.
//!
//! `decode count CASE SEED VARIANT=LIBRARY` calls the handler of one case 1,000 times without timing. This form is for
//! `valgrind --tool=callgrind`, because other processes do not affect instruction counts.

mod agreement;
mod cases;
mod frame;
mod host;
mod variant;

use anyhow::{Context, Result, ensure};
use std::hint::black_box;
use std::time::Instant;

use agreement::Checks;
use cases::{CASES, Case};
use frame::Host;
use host::Call;
use variant::{Variant, measure, pin};

const USAGE: &str = "the command line is [count CASE] SEED VARIANT=LIBRARY…";

/// The number of calls per measurement.
const CALLS: u32 = 2_000;
/// The number of measurements per case and library; the fastest measurement counts.
const ROUNDS: usize = 400;

/// Returns the checks that the handlers of a library make. Upstream's header leaves some checks to the author of a
/// handler.
fn checks(variant: &Variant) -> Checks {
    match variant.name.split('_').next() {
        Some("rust" | "c") => Checks::All,
        Some("header" | "cpp") => Checks::ButCoincidence,
        _ => Checks::Some,
    }
}

/// Checks that the handlers of all libraries decode the same values, and that handlers with all checks reject the same
/// frames.
fn agree(case: &Case, variants: &[Variant], host: &Host) -> Result<()> {
    let mut same = Vec::new();
    for variant in variants {
        same.push(agreement::Handler {
            name: &variant.name,
            call: variant.handler(case.symbol)?,
            sink: variant.sink()?,
            checks: checks(variant),
        });
    }
    agreement::judge(case, &same, host).map(|_| ())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let counted = match arguments.next_if_eq("count") {
        Some(_) => Some(arguments.next().context(USAGE)?),
        None => None,
    };
    let (seed, variants) = variant::seed_and_variants(arguments).context(USAGE)?;
    let host = host::with_seed(seed);
    if let Some(name) = counted {
        let case = CASES.iter().find(|case| case.name == name);
        let case = case.with_context(|| format!("no case {name}"))?;
        let frame = (case.frame)(&host);
        for variant in &variants {
            measure(variant.handler(case.symbol)?, frame.raw, 1_000);
        }
        return Ok(());
    }
    pin()?;
    for case in &CASES {
        agree(case, &variants, &host)?;
    }
    let mut cases = Vec::new();
    let mut report = |name: &str, kind: &str, costs: Vec<f64>| {
        let mut row = serde_json::json!({ "case": name, "kind": kind });
        for (variant, cost) in variants.iter().zip(costs) {
            row[&variant.name] = cost.into();
        }
        cases.push(row);
    };
    for case in &CASES {
        let frame = (case.frame)(&host);
        let handlers: Vec<Call> = variants
            .iter()
            .map(|variant| variant.handler(case.symbol))
            .collect::<Result<_>>()?;
        let mut best = vec![f64::INFINITY; variants.len()];
        // Libraries are measured alternately, so that a disturbance affects all of them.
        for _ in 0..ROUNDS {
            for (handler, best) in handlers.iter().zip(&mut best) {
                *best = best.min(measure(*handler, frame.raw, CALLS));
            }
        }
        report(case.name, case.kind.name(), best);
    }
    // In the two additional cases, the order of operands in memory changes with every call, and two arguments have the
    // same array.
    let (frame, moved) = (CASES[6].frame, host::with_seed(seed + 100));
    let twice = || {
        let frame = frame(&host);
        let (first, second) = (frame.args[0], frame.args[1]);
        // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
        let data = unsafe { (*first).data };
        // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
        unsafe { (*second).data = data };
        frame
    };
    for (name, frames) in [
        ("8 and 8, orders alternate", [frame(&host), frame(&moved)]),
        ("8 and 8, an argument given twice", [twice(), twice()]),
    ] {
        let mut costs = vec![];
        for variant in &variants {
            let handler = variant.handler(CASES[6].symbol)?;
            let mut best = f64::INFINITY;
            for _ in 0..100 {
                let start = Instant::now();
                for call in 0..CALLS {
                    let frame = &frames[(call % 2) as usize];
                    // SAFETY: the frame is complete, its host still exists, and handlers do not modify the frame.
                    let error = unsafe { handler(black_box(frame.raw)) };
                    ensure!(error.is_null(), "{}: {name}: refused", variant.name);
                }
                best = best.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
            }
            costs.push(best);
        }
        report(name, "information", costs);
    }
    println!("{}", serde_json::json!({ "seed": seed, "cases": cases }));
    Ok(())
}
