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

/// Returns the allocations of a hundred calls, after one call that may do one-time work.
fn count(handler: host::Call, frame: *mut XLA_FFI_CallFrame) -> usize {
    let call = || {
        // SAFETY: the frame is complete and belongs to a live host.
        let error = unsafe { handler(frame) };
        // SAFETY: the frame belongs to a call that has returned.
        unsafe { host::take_future(frame) };
        if !error.is_null() {
            // SAFETY: the error belongs to our host and is not used again.
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
        // The other cases show that allocations are counted.
        assert_eq!(
            allocations == 0,
            is_free,
            "{}: {allocations} allocations in 100 calls",
            case.name
        );
    }
}
