//! Generated programs on XLA's CPU backend behind a PJRT plugin: they compute, byte by byte, what they
//! compute on the embedded runtime. What the plugin's XLA cannot do is told and counted.

use crate::generate::{TARGET, alone, arguments, dtypes, mix, plans, register, take_called};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use xla_ffi_programs::pjrt::{Client, Plugin};
use xla_ffi_programs::{ArrayShape, Program, ValueShape};
use xla_ffi_runtime::{Bundle, Result, Runtime, Tensor, Tree};
use xla_ffi_testing::plugin::plugin;
use xla_ffi_testing::skip;

/// How many programs are generated.
const PROGRAMS: u32 = 300;

/// What the plugin's XLA does with a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    /// What the embedded runtime does.
    Same,
    /// It turns the dimensions of packed elements. For that the compiler of this XLA reads what is not
    /// there, and throws an exception or crashes: such programs are not run.
    Packed,
    /// It turns dimensions in one call, and has another that cannot say in StableHLO that it does not,
    /// for it has tuples: XLA chooses the layouts there, the embedded runtime takes row-major ones.
    Free,
}

fn on_pjrt(client: &Client, text: &str, arguments: &[Tree<Tensor>]) -> Result<Vec<Tensor>> {
    // The printed program takes the leaves of all arguments.
    let leaves: Vec<_> = arguments.iter().flat_map(Tree::leaves).cloned().collect();
    client.compile(text)?.run(&leaves)
}

fn called() -> BTreeSet<i64> {
    take_called().into_iter().collect()
}

/// The calls' seeds, and whether they have a side effect.
fn calls(text: &str) -> impl Iterator<Item = (i64, bool)> {
    let mut of_calls = text.lines().filter(|line| line.contains("custom_call @"));
    std::iter::from_fn(move || {
        let line = of_calls.next()?;
        let (_, seed) = line.split_once("seed = ")?;
        let seed = seed.split(' ').next()?.parse().ok()?;
        Some((seed, line.contains("has_side_effect = true")))
    })
}

/// Whether some array of a kind has its dimensions turned, as a result or as an operand.
fn turns(program: &Program, text: &str, of: impl Fn(&ArrayShape) -> bool) -> bool {
    let is = |shape: &ValueShape| shape.leaves().any(&of);
    let turned = |shape: &ValueShape| !shape.is_row_major() && is(shape);
    let row_major = ["", "0", "1, 0", "2, 1, 0"];
    let turning = text.split("dense<[").skip(1).any(|rest| {
        let (order, rest) = rest.split_once(']').unwrap_or_default();
        rest.split('\n')
            .next()
            .is_some_and(|rest| rest.starts_with("> : tensor<") && rest.contains("xindex>"))
            && !row_major.contains(&order)
    });
    program.instructions().any(|(_, _, shape)| turned(shape))
        || (turning && program.instructions().any(|(_, _, shape)| is(shape)))
}

/// Whether the program has what [`Outcome::Free`] names.
fn leaves_layouts_free(program: &Program, text: &str) -> bool {
    let mut calls = text.lines().filter(|line| line.contains("custom_call @"));
    calls.any(|line| !line.contains("operand_layouts")) && turns(program, text, |_| true)
}

/// Runs a program on both and says how they differ, if they may.
fn compare(
    client: &Client,
    runtime: &Runtime,
    program: &Program,
) -> std::result::Result<Outcome, String> {
    let arguments = arguments(program);
    let text = program.to_stablehlo().unwrap();
    if turns(program, &text, |leaf| leaf.dtype().is_packed()) {
        return Ok(Outcome::Packed);
    }
    take_called();
    let wanted = program
        .compile(runtime)
        .unwrap()
        .run(arguments.clone())
        .unwrap();
    let called_there = called();
    let got = on_pjrt(client, &text, &arguments).map_err(|error| format!("{error}\n{text}"))?;
    let called_here = called();
    // XLA leaves out more calls that nobody sees: those whose results have no elements.
    if !called_here.is_subset(&called_there) {
        return Err(format!(
            "calls {called_here:?}, of {called_there:?}\n{text}"
        ));
    }
    for (seed, side_effect) in calls(&text) {
        if side_effect && !called_here.contains(&seed) {
            return Err(format!("the call {seed} was left out\n{text}"));
        }
    }
    if leaves_layouts_free(program, &text) {
        return Ok(Outcome::Free);
    }
    let wanted: Vec<_> = wanted.leaves().collect();
    let same = got.len() == wanted.len()
        && got
            .iter()
            .zip(wanted)
            .all(|(got, wanted)| got.shape() == wanted.shape() && got.bytes() == wanted.bytes());
    if same {
        Ok(Outcome::Same)
    } else {
        Err(format!("other results\n{text}"))
    }
}

#[test]
fn generated_programs_compute_the_same_on_pjrt() {
    let test = "generated_programs_compute_the_same_on_pjrt";
    let Some(path) = plugin(test) else { return };
    let client = Plugin::load(path).unwrap().client().unwrap();
    // SAFETY: `mix` is a handler.
    let bundle = unsafe { Bundle::execute(mix) };
    client.register(TARGET, &bundle).unwrap();
    let runtime = Runtime::default();
    register(&runtime);
    let outcomes = RefCell::new(BTreeMap::new());
    let words = RefCell::new(BTreeMap::new());
    let config = Config {
        cases: PROGRAMS,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&plans(dtypes()), |plan| {
        let _alone = alone();
        let program = plan.program();
        let outcome = compare(&client, &runtime, &program).map_err(TestCaseError::fail)?;
        *outcomes.borrow_mut().entry(outcome).or_insert(0) += 1;
        if outcome == Outcome::Same {
            let text = program.to_stablehlo().unwrap();
            for word in [
                "custom_call @",
                "tuple<",
                "output_operand_aliases",
                "operand_layouts",
            ] {
                *words.borrow_mut().entry(word).or_insert(0) += usize::from(text.contains(word));
            }
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let (outcomes, words) = (outcomes.into_inner(), words.into_inner());
    println!("{outcomes:?}; of the same ones have {words:?}");
    let count = |outcome| outcomes.get(&outcome).copied().unwrap_or(0);
    let (packed, free) = (count(Outcome::Packed), count(Outcome::Free));
    if packed + free > 0 {
        let what = format!(
            "of {PROGRAMS} programs {packed} did not run, for they turn packed arrays, which this XLA's \
             compiler cannot; {free} were not compared, for StableHLO cannot say the layouts of their tuples"
        );
        skip(test, &what);
    }
    assert!(outcomes[&Outcome::Same] >= 200, "{outcomes:?}");
    assert!(words.values().all(|count| *count >= 30), "{words:?}");
}
