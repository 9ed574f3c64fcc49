//! Times the same handlers, written in several languages, on the same call frames.
//!
//! `decode SEED VARIANT=LIBRARY…` prints the cost of each case in each library as JSON; the seed says in which
//! order operands lie in memory. `cargo xtask bench` builds the libraries and calls this program. Before anything is
//! timed, the libraries have to agree: on what they decode, and, those that make every check, on what they refuse.
//!
//! `decode count CASE SEED VARIANT=LIBRARY` calls the handler of one case 1,000 times and measures nothing, for
//! `valgrind --tool=callgrind`, whose counts of instructions no other process disturbs.

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

/// Calls in one measurement.
const CALLS: u32 = 2_000;
/// Measurements of each case in each library; the lowest counts.
const ROUNDS: usize = 400;

/// What a library refuses: upstream's header leaves some checks to the author.
fn checks(variant: &Variant) -> Checks {
    match variant.name.split('_').next() {
        Some("rust" | "c") => Checks::All,
        Some("header" | "cpp") => Checks::ButCoincidence,
        _ => Checks::Some,
    }
}

/// Checks that all libraries decode the same, and that those that check everything refuse the same.
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
        // In turns, so that a disturbance does not fall on one library alone.
        for _ in 0..ROUNDS {
            for (handler, best) in handlers.iter().zip(&mut best) {
                *best = best.min(measure(*handler, frame.raw, CALLS));
            }
        }
        report(case.name, case.kind.name(), best);
    }
    // What it costs where operands lie in another order with every call, or one array is given twice.
    let (frame, moved) = (CASES[6].frame, host::with_seed(seed + 100));
    let twice = || {
        let frame = frame(&host);
        let (first, second) = (frame.args[0], frame.args[1]);
        // SAFETY: a buffer of our own, which nobody reads yet.
        let data = unsafe { (*first).data };
        // SAFETY: as above.
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
                    // SAFETY: a whole frame of a live host; handlers do not change what they get.
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
