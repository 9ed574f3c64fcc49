//! A prepared call allocates nothing, of whatever kind it is, and one that is not prepared what it hands over. Debug builds look for what handlers leave
//! unwritten, which allocates: `cargo xtask test` runs this optimised.
#![cfg(not(debug_assertions))]

use xla_ffi::internal::{Revision, Runtime};
use xla_ffi_benches_embedded::{KINDS, parts, prepared};
use xla_ffi_testing::allocations::{Counting, during};

#[global_allocator]
static COUNTING: Counting = Counting;

/// One test: the allocations of all threads are counted.
#[test]
fn calls_allocate_what_they_hand_over() {
    let runtime = Runtime::new(Revision::NEWEST);
    prepared_calls_allocate_nothing(&runtime);
    runs_of_shapes_that_repeat_allocate_their_results_alone(&runtime);
}

fn prepared_calls_allocate_nothing(runtime: &Runtime) {
    for kind in KINDS {
        let mut call = prepared(runtime, kind);
        let count = during(|| (0..100).for_each(|_| call.invoke().expect("it runs")));
        // The text of the host's error is copied where an object is absent, and shows that this counts.
        assert_eq!(count > 0, kind == "absent", "{kind}: {count} allocations");
    }
}

fn runs_of_shapes_that_repeat_allocate_their_results_alone(runtime: &Runtime) {
    let (executable, x, y) = parts(runtime);
    let run = || {
        let call = executable.call().arg(x.clone()).ret(y.clone());
        call.run().expect("it runs")
    };
    run();
    run();
    // The result's memory and the list of results.
    assert_eq!(during(|| drop(run())), 2);
}
