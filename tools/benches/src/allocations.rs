//! Checks that successful calls do not allocate: decoding, synchronous handlers, and the result.
//!
//! Debug builds allocate because they check for results that handlers do not write, so `cargo xtask test`
//! runs this test in release mode.
#![cfg(not(debug_assertions))]

#[expect(dead_code, reason = "the comparison uses the rest")]
mod cases;
mod frame;
#[expect(dead_code, reason = "the handlers are called through what they export")]
mod handlers;
#[macro_use]
#[expect(dead_code, reason = "the comparison uses the rest")]
mod host;

use xla_ffi_sys::XLA_FFI_CallFrame;
use xla_ffi_testing::cost::{Counting, allocations};

use cases::{CASES, Kind};

#[global_allocator]
static COUNTING: Counting = Counting;

exported!("allocations__");

/// Returns the number of allocations of a hundred calls. A previous call does work that is done only once.
fn count(handler: host::Call, frame: *mut XLA_FFI_CallFrame) -> usize {
    let call = || {
        // SAFETY: the frame is complete, and its host still exists.
        let error = unsafe { handler(frame) };
        // SAFETY: the call that used the frame has returned.
        unsafe { host::take_future(frame) };
        if !error.is_null() {
            // SAFETY: the benchmark's host created the error, and no code uses the error again.
            unsafe { host::destroy(error) };
        }
    };
    call();
    allocations(|| (0..100).for_each(|_| call()))
}

#[test]
fn calls_that_succeed_allocate_nothing() {
    let host = host::with_seed(1);
    for case in &CASES {
        let frame = (case.frame)(&host);
        let allocations = count(exported(case.symbol), frame.raw);
        let is_free = case.kind != Kind::Error && case.symbol != "async_inline";
        // Calls of the other cases allocate, which shows that allocations are counted.
        assert_eq!(
            allocations == 0,
            is_free,
            "{}: {allocations} allocations in 100 calls",
            case.name
        );
    }
}
