//! Measures the cost of a call by the number of operands, the number of attributes, and the nesting depth of
//! dictionaries.
//!
//! `scale SEED VARIANT=LIBRARY…` prints the cost of each size of each case in each library as JSON; the seed determines
//! the memory order of operands. `cargo xtask bench` builds the libraries in several languages and runs this program.
//!
//! Before the measurements, the libraries must decode the same values. Each library must also reject a result that
//! overlaps the last operand, which shows that overlaps are checked at every size.

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

/// The number of measurements per size and library; the fastest measurement counts.
const ROUNDS: usize = 60;
/// The time after which three measurements per library are sufficient.
const LONGEST: Duration = Duration::from_secs(1);
/// The number of operands, attributes or dictionaries that are decoded per measurement, so that each measurement takes
/// about the same time.
const DECODED: usize = 20_000;

/// A handler, and the frames of its calls by size.
struct Case {
    name: &'static str,
    symbol: &'static str,
    /// The quantity that the cost depends on, such as the number of operands.
    of: &'static str,
    /// The expected growth of the cost: `n`, or `n log n` for sorting and searching.
    grows: &'static str,
    frame: fn(&Host, usize) -> Frame,
}

/// The name of the case whose results have the addresses of arguments. Rust rejects these results; C and C++ accept
/// them as declared aliases.
const ALIASES: &str = "results in the places of arguments";

const CASES: [Case; 6] = {
    const fn case(
        [name, symbol, of, grows]: [&'static str; 4],
        frame: fn(&Host, usize) -> Frame,
    ) -> Case {
        Case {
            name,
            symbol,
            of,
            grows,
            frame,
        }
    }
    [
        case(["arguments", "args", "argument", "n"], |host, size| {
            operands(host, size, 0)
        }),
        case(["results", "rets", "result", "n log n"], |host, size| {
            operands(host, 0, size)
        }),
        case(
            [
                "arguments and as many results",
                "args_rets",
                "pair",
                "n log n",
            ],
            |host, size| operands(host, size, size),
        ),
        case([ALIASES, "args_rets", "pair", "n log n"], aliases),
        case(
            ["attributes by name", "attributes", "attribute", "n log n"],
            attributes,
        ),
        case(
            ["dictionaries in dictionaries", "depth", "dictionary", "n"],
            depth,
        ),
    ]
};

fn operands(host: &Host, args: usize, rets: usize) -> Frame {
    frame::frame(host, args, rets, Attrs::numbers(&[]))
}

/// Returns a frame in which each result has the address of the argument with the same index.
fn aliases(host: &Host, size: usize) -> Frame {
    let frame = operands(host, size, size);
    for (arg, ret) in frame.args.iter().zip(&frame.rets) {
        put_on(*ret, *arg);
    }
    frame
}

/// Sets the address of the array in `buffer` to that of the array in `other`.
fn put_on(buffer: *mut XLA_FFI_Buffer, other: *mut XLA_FFI_Buffer) {
    // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
    let data = unsafe { (*other).data };
    // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
    unsafe { (*buffer).data = data };
}

/// Returns a frame with a dictionary of `size` numbers under the names that the handlers accept.
fn attributes(host: &Host, size: usize) -> Frame {
    let names: Vec<&'static str> = (0..size)
        .map(|index| &*format!("a{index:04}").leak())
        .collect();
    let options = Attrs::dictionary("options", Attrs::numbers(&names));
    frame::frame(host, 0, 0, options)
}

/// Returns a frame whose attribute `options` contains dictionaries named `next`, nested `size` deep. The innermost
/// dictionary contains a number.
fn depth(host: &Host, size: usize) -> Frame {
    let mut inner = Attrs::numbers(&["value"]);
    for _ in 1..size {
        inner = Attrs::dictionary("next", inner);
    }
    frame::frame(host, 0, 0, Attrs::dictionary("options", inner))
}

/// Checks that the handlers of all libraries decode the same values and reject the same invalid frame.
fn agree(case: &Case, size: usize, variants: &[&Variant], host: &Host) -> Result<()> {
    let at = format!("{} of {size}", case.name);
    let frame = (case.frame)(host, size);
    let refused = |variant: &Variant| {
        // SAFETY: the frame is complete, and its host still exists.
        let error = unsafe { variant.handler(case.symbol)?(frame.raw) };
        if error.is_null() {
            return anyhow::Ok(None);
        }
        // SAFETY: the benchmark's host created the error.
        let told = unsafe { host::told(error) };
        // SAFETY: the benchmark's host created the error, and no code uses the error again.
        unsafe { host::destroy(error) };
        Ok(Some(told))
    };
    let mut seen = vec![];
    for variant in variants {
        let told = refused(variant)?;
        ensure!(told.is_none(), "{}, {at}: {told:?}", variant.name);
        // SAFETY: the function has no preconditions, because it only reads a number.
        seen.push(unsafe { (variant.sink()?)() });
    }
    let is_same = seen.windows(2).all(|pair| pair[0] == pair[1]);
    ensure!(is_same, "{at}: the libraries decode {seen:?}");
    let Some(last) = frame.rets.last() else {
        return Ok(());
    };
    let first = frame.operands().nth(frame.args.len());
    put_on(*last, first.context("there is a result")?);
    for variant in variants {
        let is_refused = refused(variant)?.is_some();
        ensure!(
            is_refused,
            "{}, {at}: two results in one place",
            variant.name
        );
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
            .filter(|variant| !(case.name == ALIASES && variant.name == "rust"))
            .collect();
        let mut costs = vec![vec![]; variants.len()];
        let sizes = if case.symbol == "depth" {
            DEPTHS
        } else {
            SIZES
        };
        for &size in sizes {
            agree(case, size, &variants, &host)?;
            let frame = (case.frame)(&host, size);
            let calls = u32::try_from(DECODED.div_ceil(size))?;
            let mut best = vec![f64::INFINITY; variants.len()];
            // Libraries are measured alternately, so that a disturbance affects all of them.
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
            "case": case.name, "of": case.of, "grows": case.grows, "sizes": sizes, "ns": costs,
        }));
    }
    println!("{}", serde_json::json!({ "seed": seed, "cases": cases }));
    Ok(())
}
