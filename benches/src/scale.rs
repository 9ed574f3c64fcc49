//! What a call costs by the number of its operands, of its attributes, and by how deep its dictionaries lie in each other, in
//! several languages.
//!
//! `scale SEED VARIANT=LIBRARY…` prints the cost of each size of each case in each library as JSON; the seed says in which
//! order operands lie in memory. `cargo xtask bench` builds the libraries and calls this program. Before anything is
//! timed, the libraries have to agree on what they decode, and each has to refuse a result that shares memory with the
//! last operand: so the check is seen to be made at every size.

mod frame;
mod host;
mod variant;

use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use xla_ffi_sys::XLA_FFI_Buffer;

use frame::{Attrs, Frame, Host};
use variant::{Variant, measure, pin};

const USAGE: &str = "the command line is SEED VARIANT=LIBRARY…";

const SIZES: &[usize] = &[64, 128, 256, 512, 1024, 2048, 4096];
const DEPTHS: &[usize] = &[1, 2, 4, 8, 16, 32];

/// Measurements of each size in each library; the lowest counts.
const ROUNDS: usize = 60;
/// After so long, three of them have to do.
const LONGEST: Duration = Duration::from_secs(1);
/// Operands, attributes or dictionaries that are decoded in one measurement, so that each takes about as long.
const DECODED: usize = 20_000;

/// One handler, and the frames that it gets.
struct Case {
    name: &'static str,
    symbol: &'static str,
    /// What the cost grows with.
    of: &'static str,
    /// And how: what is sorted, or found among others, takes a logarithm of steps.
    grows: &'static str,
    sizes: &'static [usize],
    frame: fn(&Host, usize) -> Frame,
    /// Whether Rust refuses what C and C++ take for an alias that the program declared.
    has_aliases: bool,
}

const CASES: [Case; 6] = [
    Case {
        name: "arguments",
        symbol: "args",
        of: "argument",
        grows: "n",
        sizes: SIZES,
        frame: |host, size| operands(host, size, 0),
        has_aliases: false,
    },
    Case {
        name: "results",
        symbol: "rets",
        of: "result",
        grows: "n log n",
        sizes: SIZES,
        frame: |host, size| operands(host, 0, size),
        has_aliases: false,
    },
    Case {
        name: "arguments and as many results",
        symbol: "args_rets",
        of: "pair",
        grows: "n log n",
        sizes: SIZES,
        frame: |host, size| operands(host, size, size),
        has_aliases: false,
    },
    Case {
        name: "results in the places of arguments",
        symbol: "args_rets",
        of: "pair",
        grows: "n log n",
        sizes: SIZES,
        frame: aliases,
        has_aliases: true,
    },
    Case {
        name: "attributes by name",
        symbol: "attributes",
        of: "attribute",
        grows: "n log n",
        sizes: SIZES,
        frame: attributes,
        has_aliases: false,
    },
    Case {
        name: "dictionaries in dictionaries",
        symbol: "depth",
        of: "dictionary",
        grows: "n",
        sizes: DEPTHS,
        frame: depth,
        has_aliases: false,
    },
];

fn operands(host: &Host, args: usize, rets: usize) -> Frame {
    frame::frame(host, args, rets, Attrs::numbers(&[]))
}

/// Each result lies where the argument of its number does.
fn aliases(host: &Host, size: usize) -> Frame {
    let frame = operands(host, size, size);
    for (arg, ret) in frame.args.iter().zip(&frame.rets) {
        put_on(*ret, *arg);
    }
    frame
}

/// Lets a buffer start where another one starts.
fn put_on(buffer: *mut XLA_FFI_Buffer, other: *mut XLA_FFI_Buffer) {
    // SAFETY: a buffer of our own, which nobody reads yet.
    let data = unsafe { (*other).data };
    // SAFETY: as above.
    unsafe { (*buffer).data = data };
}

/// A dictionary of so many numbers, whose names the handlers know.
fn attributes(host: &Host, size: usize) -> Frame {
    let names: Vec<&'static str> = (0..size)
        .map(|index| &*format!("a{index:04}").leak())
        .collect();
    let options = Attrs::dictionary("options", Attrs::numbers(&names));
    frame::frame(host, 0, 0, options)
}

/// `options`, in it as many dictionaries `next` as make `size`, and in the last of them a number.
fn depth(host: &Host, size: usize) -> Frame {
    let mut inner = Attrs::numbers(&["value"]);
    for _ in 1..size {
        inner = Attrs::dictionary("next", inner);
    }
    frame::frame(host, 0, 0, Attrs::dictionary("options", inner))
}

/// Checks that all libraries decode the same, and see what must not be.
fn agree(case: &Case, size: usize, variants: &[&Variant], host: &Host) -> Result<()> {
    let frame = (case.frame)(host, size);
    let mut seen = None;
    for variant in variants {
        let handler = variant.handler(case.symbol)?;
        // SAFETY: a whole frame of a live host.
        let error = unsafe { handler(frame.raw) };
        // SAFETY: errors come from our host.
        let told = (!error.is_null()).then(|| unsafe { host::told(error) });
        ensure!(told.is_none(), "{}, {}: {told:?}", variant.name, case.name);
        // SAFETY: it reads a number.
        let this = unsafe { (variant.sink()?)() };
        let other = *seen.get_or_insert(this);
        ensure!(
            this == other,
            "{}, {} of {size}: {this} is decoded, {other} by another library",
            variant.name,
            case.name
        );
    }
    let Some(last) = frame.rets.last() else {
        return Ok(());
    };
    let first = frame.operands().nth(frame.args.len());
    put_on(*last, first.context("there is a result")?);
    for variant in variants {
        let handler = variant.handler(case.symbol)?;
        // SAFETY: as above.
        let error = unsafe { handler(frame.raw) };
        ensure!(
            !error.is_null(),
            "{}, {} of {size}: two results in one place are accepted",
            variant.name,
            case.name
        );
        // SAFETY: the error came from our host.
        unsafe { host::destroy(error) };
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments = std::env::args().skip(1);
    let (seed, variants) = variant::seed_and_variants(arguments).context(USAGE)?;
    let host = host::with_seed(seed);
    pin()?;
    let mut cases = Vec::new();
    for case in &CASES {
        let variants: Vec<&Variant> = variants
            .iter()
            .filter(|variant| !(case.has_aliases && variant.name == "rust"))
            .collect();
        let mut costs = vec![vec![]; variants.len()];
        for &size in case.sizes {
            agree(case, size, &variants, &host)?;
            let frame = (case.frame)(&host, size);
            let calls = u32::try_from(DECODED.div_ceil(size))?;
            let mut best = vec![f64::INFINITY; variants.len()];
            // In turns, so that a disturbance does not fall on one library alone.
            let start = Instant::now();
            for round in 0..ROUNDS {
                if round > 2 && start.elapsed() > LONGEST {
                    break;
                }
                for (variant, best) in variants.iter().zip(&mut best) {
                    let handler = variant.handler(case.symbol)?;
                    *best = best.min(measure(handler, frame.raw, calls));
                }
            }
            for (costs, best) in costs.iter_mut().zip(best) {
                costs.push(best);
            }
        }
        let costs = variants.iter().zip(costs);
        let costs: serde_json::Map<_, _> = costs
            .map(|(variant, costs)| (variant.name.clone(), costs.into()))
            .collect();
        cases.push(serde_json::json!({
            "case": case.name, "of": case.of, "grows": case.grows, "sizes": case.sizes, "ns": costs,
        }));
    }
    println!("{}", serde_json::json!({ "seed": seed, "cases": cases }));
    Ok(())
}
