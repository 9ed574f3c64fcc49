//! A prepared call allocates nothing, of whatever kind it is. Debug builds look for what handlers leave
//! unwritten, which allocates: `cargo xtask test` runs this optimised.
#![cfg(not(debug_assertions))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use xla_ffi::internal::{Revision, Runtime};
use xla_ffi_benches_embedded::{KINDS, prepared};

/// The system's allocator, which counts.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn prepared_calls_allocate_nothing() {
    let runtime = Runtime::new(Revision::NEWEST);
    for kind in KINDS {
        let mut call = prepared(&runtime, kind);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..100).for_each(|_| call.invoke().expect("it runs"));
        let count = ALLOCATIONS.load(Ordering::Relaxed) - before;
        // The text of the host's error is copied where an object is absent, and shows that this counts.
        assert_eq!(count > 0, kind == "absent", "{kind}: {count} allocations");
    }
}
