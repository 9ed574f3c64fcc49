//! What calls on the embedded runtime cost on one thread and on two, as a line of JSON: ns a call, the
//! least of many rounds. `cargo xtask bench` runs it, prints it and knows the limits.
//!
//! Two threads are held against two processes that run side by side in the same way, so that what the
//! machine does to two busy cores falls on both. In a round both workers begin and end together, at a
//! barrier in memory that processes share: the time of a round is that of the slower one, and the least
//! is of a round in which nobody disturbed either.

mod rounds;

use rounds::Board;
use std::hint::black_box;
use std::time::Instant;
use xla_ffi::internal::{PreparedCall, Revision, Runtime, Tensor};
use xla_ffi_benches_embedded::{KINDS, LARGE, large_copy, parts, prepared};

/// Calls in a round.
const CALLS: u32 = 1000;
/// Rounds of one measurement.
const ROUNDS: usize = 40;
/// Measurements of what is compared, in turns: another process that runs for a while falls on a few of all.
const TURNS: usize = 12;

fn calls(call: &mut PreparedCall) {
    for _ in 0..CALLS {
        black_box(&mut *call).invoke().expect("it runs");
    }
}

/// Nanoseconds of one of `CALLS` runs of `work`, the least of the rounds.
fn alone(mut work: impl FnMut()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..ROUNDS * 2).map(round).fold(f64::INFINITY, f64::min)
}

/// The same for two workers, which are two threads here.
fn threads(call: &PreparedCall) -> f64 {
    let board = Board::new();
    std::thread::scope(|scope| {
        for worker in 1..2 {
            let mut own = call.try_clone().expect("a clone");
            let board = &board;
            scope.spawn(move || board.work(worker, ROUNDS, || calls(&mut own)));
        }
        let mut own = call.try_clone().expect("a clone");
        board.work(0, ROUNDS, || calls(&mut own))
    }) / f64::from(CALLS)
}

/// The same for two workers, which are two processes here.
fn processes(call: &PreparedCall) -> f64 {
    let board = Board::new();
    let mut own = call.try_clone().expect("a clone");
    // This process has no other thread now: the child may do what it likes.
    let child = rounds::fork(|| {
        board.work(1, ROUNDS, || calls(&mut own));
    });
    let least = board.work(0, ROUNDS, || calls(&mut own));
    child.wait();
    least / f64::from(CALLS)
}

/// Milliseconds that 64 MB take through a handler that copies them, without a host and with one: the least of
/// rounds in turns.
fn large(runtime: &Runtime) -> (f64, f64) {
    let executable = large_copy(runtime);
    let dims = [LARGE as i64];
    let x = Tensor::from_vec(dims, vec![1.0_f32; LARGE]).expect("memory");
    let mut y = Tensor::from_vec(dims, vec![2.0_f32; LARGE]).expect("memory");
    let (mut direct, mut call) = (f64::INFINITY, f64::INFINITY);
    let spent = |start: Instant| start.elapsed().as_secs_f64() * 1e3;
    for _ in 0..ROUNDS {
        let (from, to) = (x.as_slice::<f32>(), y.as_mut_slice::<f32>());
        let start = Instant::now();
        to.expect("nobody shares it")
            .copy_from_slice(from.expect("its type"));
        direct = direct.min(spent(start));
        let start = Instant::now();
        let outcome = executable.call().arg(x.clone()).ret_in(y).run();
        y = outcome.expect("it runs").rets.remove(0);
        call = call.min(spent(start));
    }
    (direct, call)
}

fn main() {
    let runtime = Runtime::new(Revision::NEWEST);
    let mut report = serde_json::Map::new();
    for kind in KINDS {
        let mut one = prepared(&runtime, kind);
        let (mut two_threads, mut two_processes) = (f64::INFINITY, f64::INFINITY);
        let (mut single, mut crowded) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..TURNS {
            single = single.min(alone(|| calls(&mut one)));
            two_threads = two_threads.min(threads(&one));
            two_processes = two_processes.min(processes(&one));
            // Each has called the handler: what its library keeps of the others is not to cost the last.
            let other = |_| prepared(&Runtime::new(Revision::NEWEST), kind);
            let mut others: Vec<_> = (0..100).map(other).collect();
            crowded = crowded.min(others.last_mut().map_or(0.0, |last| alone(|| calls(last))));
        }
        report.insert(
            kind.to_owned(),
            serde_json::json!({
                "one": single,
                "threads": two_threads,
                "processes": two_processes,
                "crowded": crowded,
            }),
        );
    }
    let mut same = prepared(&runtime, "plain");
    let (executable, x, y) = parts(&runtime);
    let (mut run, mut prepared) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TURNS {
        run = run.min(alone(|| {
            for _ in 0..CALLS {
                let call = executable.call().arg(x.clone()).ret(y.clone());
                black_box(call.run().expect("it runs"));
            }
        }));
        prepared = prepared.min(alone(|| calls(&mut same)));
    }
    report.insert(
        "run".to_owned(),
        serde_json::json!({ "run": run, "prepared": prepared }),
    );
    let (direct, call) = large(&runtime);
    report.insert(
        "large".to_owned(),
        serde_json::json!({ "direct": direct, "call": call }),
    );
    println!("{}", serde_json::Value::Object(report));
}
