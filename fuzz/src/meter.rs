//! What reading an input costs: the most memory that its thread held at a time, and processor time.
//!
//! Unsafe: the allocator that counts, which hands every request to the system's.

use rustix::time::{ClockId, clock_gettime};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

/// Memory that any input may take: what is read once, error messages.
pub(crate) const FREE: usize = 1 << 20;

/// Longer than any input may take: the fuzzer's are some kilobytes.
pub(crate) const LONGEST: Duration =
    Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 2 });

thread_local! {
    /// Bytes that this thread took and did not give back; less than none where it frees another's.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(more: usize, less: usize) {
    // Both are below the largest size of an allocation.
    let held = HELD.get() + more as isize - less as isize;
    HELD.set(held);
    MOST.set(MOST.get().max(held));
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// What a piece of work cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// The most bytes that were held at a time.
    pub(crate) memory: usize,
    /// Time of the processor: what else the machine does makes no difference.
    pub(crate) time: Duration,
}

impl Cost {
    pub(crate) fn of(work: impl FnOnce()) -> Self {
        let now = || {
            let now = clock_gettime(ClockId::ThreadCPUTime);
            // A number and no duration: that one borrows from its seconds now and then, which would be an edge by chance.
            now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
        };
        let (held, start) = (HELD.get(), now());
        MOST.set(held);
        work();
        Self {
            memory: (MOST.get() - held).unsigned_abs(),
            time: Duration::from_nanos(now() - start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_while_it_is_held() {
        let cost = Cost::of(|| {
            for _ in 0..10 {
                std::hint::black_box(vec![1_u8; 1000]);
            }
            std::hint::black_box((vec![0_u8; 300], vec![0_u8; 400]));
        });
        assert_eq!(cost.memory, 1000);
        let spin = || {
            let mut sum = 0_u64;
            (0..3_000_000_u64).for_each(|i| sum = std::hint::black_box(sum ^ i));
        };
        assert!(Cost::of(spin).time > Duration::from_micros(100));
    }
}
