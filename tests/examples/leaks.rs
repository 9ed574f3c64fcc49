//! Memory stays flat however often the examples are called: every call of the table, those that fail
//! among them, with executables that come and go and with one that stays.
//!
//! `XLA_FFI_LEAK_CALLS` is how often each example is called; a long run asks for 100,000.

use crate::embedded::{executable, execute};
use crate::{LANGUAGES, every_example, text, texts};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use xla_ffi_runtime::{Revision, Runtime};
use xla_ffi_testing::skip;

/// How often each example is called where nothing else is said.
const CALLS: usize = 1_000;

/// What may be added to the heap after the warm-up: 41 bytes a call when there are few.
const HEAP: i64 = 40 << 10;

/// Set in the process in which nothing else runs.
const ALONE: &str = "XLA_FFI_LEAKS_ALONE";

/// Bytes that the heap has given out.
fn memory() -> i64 {
    // SAFETY: only counts.
    let heap = unsafe { libc::mallinfo2() };
    (heap.uordblks + heap.hblkhd) as i64
}

/// Calls an example about this often: one time in eight with an executable of its own.
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

/// The same call, which does not sleep.
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
            "only glibc tells what its heap has given out",
        );
    }
    // In a process of its own: other tests take memory meanwhile.
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
            // Libraries know a copy of XLA by the address of its table: keep it.
            std::mem::forget(runtime);
        });
    }
    assert!(leaks.is_empty(), "memory grows: {}", leaks.join(", "));
}
