//! Parallel loops. The calling thread and helpers on the host's pool share the chunks. Helpers may start late.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};

use crate::frame::pending::sync::atomic::{AtomicUsize, Ordering};
use crate::frame::pending::sync::{Condvar, Mutex, MutexGuard};

/// The shared state of one loop. Helpers hold it in an `Arc`, so a helper that starts late can
/// detect that the loop is over.
struct Loop {
    chunks: usize,
    next: AtomicUsize,
    // Invariant: a helper uses `body` only while it holds a `Running`, which exists only if the
    // gate was open. The caller of `run` holds a `Closing`, so `run` neither returns nor unwinds
    // before the gate is closed and `running` is 0.
    body: *const (dyn Fn(usize) + Sync),
    gate: Mutex<Gate>,
    idle: Condvar,
}

struct Gate {
    open: bool,
    running: usize,
    panic: Option<Box<dyn Any + Send>>,
}

// SAFETY: `body` is Sync, and threads use it only before `run` returns (the invariant on `body`).
unsafe impl Send for Loop {}
// SAFETY: `body` is Sync, and threads use it only before `run` returns (the invariant on `body`).
unsafe impl Sync for Loop {}

impl Loop {
    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs chunks of the loop until no chunk is left.
    fn work(&self) {
        // SAFETY: the invariant on `body` holds, because the caller holds a `Running` or a `Closing`.
        let body = unsafe { &*self.body };
        loop {
            // The counter stops at the number of chunks. It could otherwise overflow and return a
            // chunk twice.
            let more = |next| (next < self.chunks).then(|| next + 1);
            let taken = self
                .next
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
            let Ok(chunk) = taken else {
                return;
            };
            if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| body(chunk))) {
                self.next.fetch_max(self.chunks, Ordering::Relaxed);
                self.keep(panic);
                return;
            }
        }
    }

    /// Stores the first panic and drops later panics. Dropping a payload can be slow and can panic
    /// itself, so the drop catches panics and does not hold the gate's lock.
    fn keep(&self, panic: Box<dyn Any + Send>) {
        let mut gate = self.gate();
        if gate.panic.is_none() {
            gate.panic = Some(panic);
            return;
        }
        drop(gate);
        crate::error::panics::discard(panic);
    }

    fn help(&self) {
        if let Some(_running) = Running::enter(self) {
            self.work();
        }
    }
}

/// A helper that is currently running chunks.
struct Running<'a>(&'a Loop);

impl<'a> Running<'a> {
    fn enter(shared: &'a Loop) -> Option<Self> {
        let mut gate = shared.gate();
        if !gate.open {
            return None;
        }
        gate.running += 1;
        Some(Self(shared))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut gate = self.0.gate();
        gate.running -= 1;
        if gate.running == 0 {
            self.0.idle.notify_all();
        }
    }
}

/// Closes the loop's gate and waits for the running helpers when the caller returns or unwinds.
struct Closing<'a>(&'a Loop);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut gate = self.0.gate();
        gate.open = false;
        while gate.running > 0 {
            gate = self
                .0
                .idle
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Calls `body` once for each chunk. Passes up to `helpers` tasks to `spawn`, which returns true if
/// it accepted the task.
pub(super) fn run(
    chunks: usize,
    helpers: usize,
    body: &(dyn Fn(usize) + Sync),
    spawn: &dyn Fn(Box<dyn FnOnce() + Send>) -> bool,
) {
    if helpers == 0 {
        (0..chunks).for_each(body);
        return;
    }
    // SAFETY: only the lifetime is erased. Threads use `body` only until this function returns (the
    // invariant on `body`).
    let body: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(body) };
    let shared = Arc::new(Loop {
        chunks,
        next: AtomicUsize::new(0),
        body,
        gate: Mutex::new(Gate {
            open: true,
            running: 0,
            panic: None,
        }),
        idle: Condvar::new(),
    });
    let closing = Closing(&shared);
    for _ in 0..helpers {
        let helper = Arc::clone(&shared);
        if !spawn(Box::new(move || helper.help())) {
            break;
        }
    }
    shared.work();
    drop(closing);
    let panic = shared.gate().panic.take();
    if let Some(panic) = panic {
        std::panic::resume_unwind(panic);
    }
}

/// Explores all interleavings of a loop's caller and its helpers.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::frame::pending::sync::UnsafeCell;

    /// The data of a loop in the loom models: one cell per chunk.
    struct Places(Vec<UnsafeCell<usize>>);

    // SAFETY: loom's cells detect concurrent access.
    unsafe impl Sync for Places {}

    impl Places {
        fn new(chunks: usize) -> Self {
            Self((0..chunks).map(|_| UnsafeCell::new(0)).collect())
        }

        fn count(&self, chunk: usize) {
            // SAFETY: loom's cells detect concurrent access.
            self.0[chunk].with_mut(|place| unsafe { *place += 1 });
        }

        fn counted(&self, chunk: usize) -> usize {
            // SAFETY: loom's cells detect concurrent access.
            self.0[chunk].with(|place| unsafe { *place })
        }
    }

    /// The helpers that a loop has started.
    type Helpers = std::cell::RefCell<Vec<loom::thread::JoinHandle<()>>>;

    fn helper(helpers: &Helpers, task: Box<dyn FnOnce() + Send>) -> bool {
        helpers.borrow_mut().push(loom::thread::spawn(task));
        true
    }

    /// Tests that each chunk runs once, that helpers' writes are visible to the caller, and that a
    /// late helper runs no chunk. The caller owns the cells again as soon as the loop is over.
    #[test]
    fn loom_a_loop_ends_when_nobody_is_inside() {
        loom::model(|| {
            let helpers = Helpers::default();
            let places = Places::new(2);
            run(2, 1, &|chunk| places.count(chunk), &|task| {
                helper(&helpers, task)
            });
            for chunk in 0..2 {
                assert_eq!(places.counted(chunk), 1);
                places.count(chunk);
            }
            for helper in helpers.take() {
                helper.join().unwrap();
            }
        });
    }

    /// Tests that the caller rethrows a helper's panic after all helpers have ended.
    #[test]
    fn loom_a_panic_waits_for_the_others() {
        std::panic::set_hook(Box::new(|_| {}));
        loom::model(|| {
            let helpers = Helpers::default();
            let places = Places::new(2);
            let body = |chunk: usize| {
                places.count(chunk);
                std::panic::panic_any(chunk);
            };
            let caught = std::panic::catch_unwind(AssertUnwindSafe(|| {
                run(2, 1, &body, &|task| helper(&helpers, task));
            }));
            let thrown = *caught.unwrap_err().downcast::<usize>().unwrap();
            assert_eq!(places.counted(thrown), 1);
            (0..2).for_each(|chunk| places.count(chunk));
            for helper in helpers.take() {
                helper.join().unwrap();
            }
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn threads(task: Box<dyn FnOnce() + Send>) -> bool {
        std::thread::spawn(task);
        true
    }

    #[test]
    fn every_chunk_runs_once() {
        for helpers in [0, 1, 3] {
            let hits: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
            let body = |chunk: usize| {
                hits[chunk].fetch_add(1, Ordering::Relaxed);
            };
            run(100, helpers, &body, &threads);
            assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn tasks_that_never_run_or_run_late_are_no_trouble() {
        let late = Mutex::new(Vec::new());
        let count = AtomicUsize::new(0);
        let body = |_: usize| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        run(10, 4, &body, &|task| {
            late.lock().unwrap().push(task);
            true
        });
        assert_eq!(count.load(Ordering::Relaxed), 10);
        late.into_inner()
            .unwrap()
            .into_iter()
            .for_each(|task| task());
        assert_eq!(count.load(Ordering::Relaxed), 10);
    }
}
