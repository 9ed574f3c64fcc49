//! Measures calls on the embedded runtime, on one thread and while a second thread also makes calls. Prints a line of
//! JSON.
//!
//! Costs are nanoseconds per call, the minimum of many rounds. `cargo xtask bench` runs this program, prints the costs
//! and checks their limits. If an argument names a library, it measures the copying handlers of
//! `tools/benches/jax/calls.rs`: nanoseconds per prepared call, by handler and number of elements.

use std::ffi::c_void;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use xla_ffi::sys::{XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Handler, XLA_FFI_Metadata_Extension};
use xla_ffi::{
    Revision,
    embed::{
        Attributes, Bundle, DType, Execution, Runtime, Shape, Stage, Tensor, abi::CallFrame,
        calls::PreparedCall,
    },
};
use xla_ffi_benches_embedded::{KINDS, parts, prepared};

/// The number of calls per round of a measurement.
const CALLS: u32 = 1000;
/// The number of rounds per measurement; the fastest round counts.
const ROUNDS: usize = 80;
/// The number of measurements of each alternative. They are taken alternately, so that a disturbance affects only a few
/// of them.
const TURNS: usize = 12;

/// Returns the nanoseconds per run of `work` in the fastest of many rounds. Each round runs `work` `count` times.
fn least(count: u32, mut work: impl FnMut()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        for _ in 0..count {
            work();
        }
        start.elapsed().as_nanos() as f64 / f64::from(count)
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

fn alone(call: &mut PreparedCall) -> f64 {
    least(CALLS, || black_box(&mut *call).invoke().expect("it runs"))
}

/// Returns the nanoseconds per call on this thread while a second thread continuously makes the same call.
fn beside(call: &PreparedCall) -> f64 {
    let stop = AtomicBool::new(false);
    let [mut own, mut other] = [(); 2].map(|()| call.try_clone().expect("a clone"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                other.invoke().expect("it runs");
            }
        });
        let least = alone(&mut own);
        stop.store(true, Ordering::Relaxed);
        least
    })
}

/// A handler that only answers the metadata call.
unsafe extern "C" fn empty(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: a host passes a valid frame.
    let extension = unsafe { (*frame).extension_start };
    if !extension.is_null() {
        // SAFETY: the extension is the metadata extension, because hosts send no other extension.
        let metadata = unsafe { (*extension.cast::<XLA_FFI_Metadata_Extension>()).metadata };
        // SAFETY: the host's metadata is valid and writable during the call.
        unsafe { (*metadata).api_version.major_version = 0 };
        // SAFETY: the host's metadata is valid and writable during the call.
        unsafe { (*metadata).api_version.minor_version = 1 };
    }
    std::ptr::null_mut()
}

/// Measures a prepared call of an empty handler, relative to a direct call of the handler. Also measures building and
/// updating frames with 64 operands and 64 attributes.
fn frames(runtime: &Runtime) -> serde_json::Value {
    // SAFETY: `empty` is a valid handler.
    let bundle = unsafe { Bundle::execute(empty) };
    let handler = runtime.handler("empty", bundle).expect("it answers");
    let executable = handler.instantiate(&Attributes::new()).expect("no stage");
    let (_, x, y) = parts(runtime);
    let mut call = executable
        .call()
        .arg(x)
        .ret(y)
        .prepare()
        .expect("it lays out");
    let mut frame = std::mem::MaybeUninit::<XLA_FFI_CallFrame>::zeroed();
    let handler: XLA_FFI_Handler = black_box(empty);
    let direct = least(CALLS, || {
        // SAFETY: the handler `empty` reads only one field of the frame, which is zero.
        black_box(unsafe { handler(black_box(frame.as_mut_ptr())) });
    });
    let prepared = alone(&mut call);

    let shape = Shape::new(DType::F32, [8, 16]).expect("it fits");
    let data = std::ptr::without_provenance_mut::<c_void>(64);
    let operands = vec![(shape, data); 32];
    let mut attributes = Attributes::new();
    for index in 0..64 {
        attributes = attributes.with(format!("attribute_{index}"), f64::from(index));
    }
    let make = || {
        let frame = CallFrame::new(Revision::NEWEST, &operands, &operands);
        frame.expect("it lays out").attributes(&attributes)
    };
    let build = least(CALLS, || drop(black_box(make())));
    let (mut frame, pointers) = (make(), vec![data; 32]);
    let update = least(CALLS, || {
        let (args, rets) = (black_box(&pointers), black_box(&pointers));
        frame.update(args, rets).expect("32 and 32");
    });
    serde_json::json!({ "prepared": prepared - direct, "build": build, "update": update })
}

/// Measures the additional cost of settings of a call: a time limit, an observer of every 16th execution, and an
/// observer of every execution.
fn requests(runtime: &Runtime) -> serde_json::Value {
    let observed = |every| {
        let runtime = Runtime::new(Revision::NEWEST);
        let seen = AtomicU64::new(0);
        let told = move |it: &Execution<'_>| {
            seen.fetch_add(u64::from(it.duration.subsec_nanos()), Ordering::Relaxed);
        };
        runtime.observe(every, told).expect("the first");
        prepared(&runtime, "plain")
    };
    let mut calls = [prepared(runtime, "plain"), observed(16), observed(1)];
    let [mut plain, mut limited, mut one_in_16, mut all] = [f64::INFINITY; 4];
    for _ in 0..TURNS {
        plain = plain.min(alone(&mut calls[0]));
        let call = &mut calls[0];
        limited = limited.min(least(CALLS, || {
            let limit = Some(black_box(Duration::from_secs(9)));
            call.settings().expect("not open").time_limit(limit);
            black_box(&mut *call).invoke().expect("it runs");
        }));
        calls[0].settings().expect("not open").time_limit(None);
        one_in_16 = one_in_16.min(alone(&mut calls[1]));
        all = all.min(alone(&mut calls[2]));
    }
    serde_json::json!({
        "time_limit": limited - plain, "one_in_16": one_in_16 - plain, "all": all - plain
    })
}

/// Measures the copying handlers of a library, with few and with many elements.
fn copies(library: &str) -> Result<serde_json::Value, xla_ffi::Error> {
    let runtime = Runtime::new(Revision::NEWEST);
    let library = runtime.open(library)?;
    let mut report = serde_json::Map::new();
    for (name, operands) in [("copy_1", 1), ("copy_8", 8)] {
        let handler = library.handler(name, &[(Stage::Execute, name)])?;
        let executable = handler.instantiate(&Attributes::new())?;
        for (elements, calls) in [(16_usize, 5_000), (1 << 20, 20)] {
            let mut call = executable.call();
            for _ in 0..operands {
                let x = Tensor::from_slice([elements as i64], &vec![1.0_f32; elements])?;
                call = call.arg(x).ret(Shape::new(DType::F32, [elements as i64])?);
            }
            let mut call = call.prepare()?;
            let best = least(calls, || call.invoke().expect("it runs"));
            report.insert(format!("{name}, {elements}"), best.into());
        }
    }
    Ok(serde_json::Value::Object(report))
}

fn main() {
    if let Some(library) = std::env::args().nth(1) {
        println!("{}", copies(&library).expect("it has the copies"));
        return;
    }
    let runtime = Runtime::new(Revision::NEWEST);
    let mut report = serde_json::Map::new();
    for kind in KINDS {
        let mut one = prepared(&runtime, kind);
        let [mut single, mut two_threads, mut crowded] = [f64::INFINITY; 3];
        for _ in 0..TURNS {
            single = single.min(alone(&mut one));
            two_threads = two_threads.min(beside(&one));
            // All 100 runtimes have called the handler, so the library has cached data for each runtime. The cost with
            // the last runtime must not grow with the number of runtimes.
            let other = |_| prepared(&Runtime::new(Revision::NEWEST), kind);
            let mut others: Vec<_> = (0..100).map(other).collect();
            crowded = crowded.min(others.last_mut().map_or(0.0, alone));
        }
        report.insert(
            kind.to_owned(),
            serde_json::json!({ "one": single, "threads": two_threads, "crowded": crowded }),
        );
    }
    let mut same = prepared(&runtime, "plain");
    let (executable, x, y) = parts(&runtime);
    let run = least(CALLS, || {
        let call = executable.call().arg(x.clone()).ret(y.clone());
        black_box(call.run().expect("it runs"));
    });
    let same = serde_json::json!({ "run": run, "prepared": alone(&mut same) });
    report.insert("run".to_owned(), same);
    report.insert("frames".to_owned(), frames(&runtime));
    report.insert("requests".to_owned(), requests(&runtime));
    println!("{}", serde_json::Value::Object(report));
}
