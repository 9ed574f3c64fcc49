//! A server: eight threads answer requests, each with a deadline, with a handler of a shared library. The library is
//! reloaded under load, and the runtime counts the outcomes. Run it with `embedding-server libexecution.so`, the library
//! of `examples/execution.rs`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use xla_ffi::embed::calls::PreparedCall;
use xla_ffi::embed::{Attributes, DType, Executable, Runtime, Shape, Tensor};
use xla_ffi::{Error, ErrorCode};

const THREADS: usize = 8;
const REQUESTS: usize = 200;
const PATIENCE: Duration = Duration::from_millis(250);

/// The entry `i` counts the executions that took less than 2^i microseconds.
static HISTOGRAM: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];

/// A loaded version of the library, with a fast handler and a handler that exceeds its time limit.
struct Generation {
    runtime: Runtime,
    executables: [Executable; 2],
}

fn load(library: &str) -> Result<Arc<Generation>, Error> {
    let runtime = Runtime::default();
    runtime.register_library(&runtime.open(library)?)?;
    runtime.require("Host", ["double_async"])?;
    runtime.observe(1, |it| {
        let slot = 64 - (it.duration.as_micros() as u64).leading_zeros();
        HISTOGRAM[slot.min(31) as usize].fetch_add(1, Ordering::Relaxed);
    })?;
    let handler = runtime.find("double_async", "Host")?;
    let with = |delay: i64| handler.instantiate(&Attributes::new().with("delay_ms", delay));
    let executables = [with(0)?, with(600)?];
    Ok(Arc::new(Generation {
        runtime,
        executables,
    }))
}

fn prepare(executable: &Executable) -> Result<PreparedCall, Error> {
    let shape = Shape::new(DType::F32, [1])?;
    let x = Tensor::zeros(shape.clone())?;
    executable.call().arg(x).ret(shape).prepare()
}

/// Answers a request until its deadline.
fn answer(call: &mut PreparedCall, x: f32, deadline: Instant) -> Result<(), Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    call.settings()?.time_limit(Some(left));
    call.set_args([Tensor::from_vec([1], vec![x])?])?;
    call.invoke()?;
    assert_eq!(call.ret_bytes(0)?, (2.0 * x).to_ne_bytes());
    Ok(())
}

fn work(current: &RwLock<Arc<Generation>>) -> Result<(), Error> {
    let newest = || current.read().expect("no panic").clone();
    let mut generation = newest();
    let prepare_both = |of: &Generation| -> Result<_, Error> {
        Ok([prepare(&of.executables[0])?, prepare(&of.executables[1])?])
    };
    let mut calls = prepare_both(&generation)?;
    for request in 0..REQUESTS {
        if !Arc::ptr_eq(&generation, &newest()) {
            generation = newest();
            calls = prepare_both(&generation)?;
        }
        // One request in a hundred exceeds its time limit.
        let kind = usize::from(request % 100 == 99);
        match answer(&mut calls[kind], request as f32, Instant::now() + PATIENCE) {
            // The handler still uses the operands of this call, so the next request gets a new
            // call.
            Err(error) if error.code() == ErrorCode::DeadlineExceeded => {
                calls[kind] = prepare(&generation.executables[kind])?;
            }
            outcome => outcome?,
        }
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let library = std::env::args().nth(1).expect("embedding-server LIBRARY");
    let first = load(&library)?;
    let current = RwLock::new(first.clone());
    let second = std::thread::scope(|scope| -> Result<_, Error> {
        let threads = [(); THREADS].map(|()| scope.spawn(|| work(&current)));
        // Loads the library's file again, as after a deployment. Executions in progress end with the old version of
        // the library.
        std::thread::sleep(Duration::from_millis(50));
        let second = load(&library)?;
        *current.write().expect("no panic") = second.clone();
        for thread in threads {
            thread.join().expect("no panic")?;
        }
        Ok(second)
    })?;
    for generation in [first, second] {
        generation.runtime.shutdown(Duration::from_secs(60))?;
        for counts in generation.runtime.counts() {
            println!("{counts:?}");
        }
    }
    for (slot, count) in HISTOGRAM.iter().enumerate() {
        match count.load(Ordering::Relaxed) {
            0 => {}
            count => println!("below {} us: {count}", 1_u64 << slot),
        }
    }
    Ok(())
}
