//! A prepared call allocates nothing, of whatever kind it is. Debug builds look for what handlers leave
//! unwritten, which allocates: `cargo xtask test` runs this optimised.
#![cfg(not(debug_assertions))]

use xla_ffi::internal::{Revision, Runtime};
use xla_ffi_benches_embedded::{KINDS, prepared};
use xla_ffi_testing::allocations::{Counting, during};

#[global_allocator]
static COUNTING: Counting = Counting;

/// One test: the allocations of all threads are counted.
#[test]
fn prepared_calls_allocate_nothing() {
    let runtime = Runtime::new(Revision::NEWEST);
    for kind in KINDS {
        let mut call = prepared(&runtime, kind);
        let count = during(|| (0..100).for_each(|_| call.invoke().expect("it runs")));
        // The text of the host's error is copied where an object is absent, and shows that this counts.
        assert_eq!(count > 0, kind == "absent", "{kind}: {count} allocations");
    }
}
