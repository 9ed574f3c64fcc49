//! Checks that memory use stays constant over many calls of every example, including calls that fail.
//!
//! Some calls use a new executable; other calls share an executable. `XLA_FFI_LEAK_CALLS` sets the number of calls per
//! example; long runs use 100,000.

use crate::embedded::{executable, execute};
use crate::{LANGUAGES, every_example, text, texts};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use xla_ffi_runtime::{Revision, Runtime};
use xla_ffi_testing::skip;

/// Default number of calls per example.
const CALLS: usize = 1_000;

/// Allowed growth of the heap after the warm-up, in bytes: 41 bytes per call for the default number
/// of calls.
const HEAP: i64 = 40 << 10;

/// Set in the subprocess that runs only this test.
const ALONE: &str = "XLA_FFI_LEAKS_ALONE";

/// Returns the number of allocated heap bytes.
fn memory() -> i64 {
    // SAFETY: the function only reads counters.
    let heap = unsafe { libc::mallinfo2() };
    (heap.uordblks + heap.hblkhd) as i64
}

/// Calls an example about `times` times. Every eighth call uses a new executable.
fn call(runtime: &Runtime, path: &Path, calls: &[Value], times: usize) {
    let ready: Vec<_> = calls
        .iter()
        .map(|call| executable(runtime, path, call))
        .collect();
    for (time, (call, ready)) in calls.iter().zip(&ready).cycle().take(times).enumerate() {
        let fails = !texts(call, "error").is_empty();
        let outcome = match (time / calls.len() % 8, ready) {
            (0, _) => executable(runtime, path, call).and_then(|own| execute(&own, call)),
            (_, Ok(ready)) => execute(ready, call),
            (_, Err(_)) => continue,
        };
        assert_eq!(outcome.is_err(), fails, "{call}: {outcome:?}");
    }
}

/// Returns a copy of a call without the attribute for a delay.
fn hurried(call: &Value) -> Value {
    let mut call = call.clone();
    if let Some(attrs) = text(&call, "attrs") {
        call["attrs"] = attrs.replace("delay_ms = 20", "delay_ms = 0").into();
    }
    call
}

#[test]
fn memory_stays_flat() {
    if cfg!(not(all(target_os = "linux", target_env = "gnu"))) {
        return skip(
            "memory_stays_flat",
            "only glibc reports the size of its heap",
        );
    }
    // The test runs in a separate process, because other tests allocate memory concurrently.
    if std::env::var_os(ALONE).is_none() {
        let status = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "leaks::memory_stays_flat", "--nocapture"])
            .env(ALONE, "1")
            .status();
        return assert!(status.expect("it starts").success());
    }
    let times = std::env::var("XLA_FFI_LEAK_CALLS").ok();
    let times = times.map_or(CALLS, |text| text.parse().expect("a number"));
    let mut leaks = vec![];
    for language in LANGUAGES {
        every_example("leaks", language, |_, name, path, calls| {
            let calls = &calls.iter().map(hurried).collect::<Vec<_>>();
            let runtime = Runtime::new(Revision::NEWEST);
            let warm_up = times.div_ceil(5).max(8 * calls.len());
            call(&runtime, path, calls, warm_up);
            let before = memory();
            call(&runtime, path, calls, times);
            let heap = memory() - before;
            println!("{language} {name}: {times} calls, heap {heap:+} bytes");
            if heap > HEAP {
                leaks.push(format!("{name} in {language}"));
            }
            // Libraries identify a copy of XLA by the address of its function table. The runtime is leaked, so that the
            // address is not reused.
            std::mem::forget(runtime);
        });
    }
    assert!(leaks.is_empty(), "memory grows: {}", leaks.join(", "));
}
