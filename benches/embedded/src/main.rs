//! What calls on the embedded runtime cost on one thread and beside another one, as a line of JSON: ns a call, the
//! least of many rounds. `cargo xtask bench` runs it, prints it and knows the limits.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use xla_ffi::internal::{PreparedCall, Revision, Runtime};
use xla_ffi_benches_embedded::{KINDS, parts, prepared};

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

/// The same while another thread makes calls all the time.
fn beside(call: &PreparedCall) -> f64 {
    let stop = AtomicBool::new(false);
    let [mut own, mut other] = [(); 2].map(|()| call.try_clone().expect("a clone"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                calls(&mut other);
            }
        });
        let least = alone(|| calls(&mut own));
        stop.store(true, Ordering::Relaxed);
        least
    })
}

fn main() {
    let runtime = Runtime::new(Revision::NEWEST);
    let mut report = serde_json::Map::new();
    for kind in KINDS {
        let mut one = prepared(&runtime, kind);
        let [mut single, mut two_threads, mut crowded] = [f64::INFINITY; 3];
        for _ in 0..TURNS {
            single = single.min(alone(|| calls(&mut one)));
            two_threads = two_threads.min(beside(&one));
            // Each has called the handler: what its library keeps of the others is not to cost the last.
            let other = |_| prepared(&Runtime::new(Revision::NEWEST), kind);
            let mut others: Vec<_> = (0..100).map(other).collect();
            crowded = crowded.min(others.last_mut().map_or(0.0, |last| alone(|| calls(last))));
        }
        report.insert(
            kind.to_owned(),
            serde_json::json!({ "one": single, "threads": two_threads, "crowded": crowded }),
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
    println!("{}", serde_json::Value::Object(report));
}
