//! Loops that share their chunks between the calling thread and helpers that may come late.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// One loop. Helpers hold it by `Arc`, so one that comes after the loop has ended finds it closed.
struct Loop {
    chunks: usize,
    next: AtomicUsize,
    // Invariant: a helper reaches `body` only between raising `running` under an open gate and
    // lowering it; the caller of `run` does not return before the gate is closed and `running` is 0.
    body: *const (dyn Fn(usize) + Sync),
    gate: Mutex<Gate>,
    idle: Condvar,
}

struct Gate {
    open: bool,
    running: usize,
    panic: Option<Box<dyn Any + Send>>,
}

// SAFETY: `body` is Sync and is reached under the invariant above.
unsafe impl Send for Loop {}
// SAFETY: as above.
unsafe impl Sync for Loop {}

impl Loop {
    fn gate(&self) -> std::sync::MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes chunks until none is left.
    fn work(&self) {
        // SAFETY: the invariant on `body`.
        let body = unsafe { &*self.body };
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= self.chunks {
                return;
            }
            if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| body(chunk))) {
                self.next.fetch_max(self.chunks, Ordering::Relaxed);
                self.gate().panic.get_or_insert(panic);
                return;
            }
        }
    }

    fn help(&self) {
        {
            let mut gate = self.gate();
            if !gate.open {
                return;
            }
            gate.running += 1;
        }
        self.work();
        let mut gate = self.gate();
        gate.running -= 1;
        if gate.running == 0 {
            self.idle.notify_all();
        }
    }
}

/// Calls `body` once for each chunk. Up to `helpers` tasks are given to `spawn`, which says whether
/// it took one.
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
    // SAFETY: only the lifetime is erased; the invariant on `body` keeps every use within this call.
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
    for _ in 0..helpers {
        let helper = Arc::clone(&shared);
        if !spawn(Box::new(move || helper.help())) {
            break;
        }
    }
    shared.work();
    let mut gate = shared.gate();
    gate.open = false;
    while gate.running > 0 {
        gate = shared
            .idle
            .wait(gate)
            .unwrap_or_else(PoisonError::into_inner);
    }
    if let Some(panic) = gate.panic.take() {
        drop(gate);
        std::panic::resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

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

    #[test]
    fn a_refused_task_leaves_the_work_to_the_caller() {
        let count = AtomicUsize::new(0);
        let body = |_: usize| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        run(10, 4, &body, &|_| false);
        assert_eq!(count.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn a_panic_reaches_the_caller_after_the_others_are_done() {
        let running = AtomicBool::new(false);
        let body = |chunk: usize| {
            if chunk == 3 {
                panic!("three");
            }
            running.store(true, Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(5));
            running.store(false, Ordering::Relaxed);
        };
        let caught = std::panic::catch_unwind(AssertUnwindSafe(|| run(8, 2, &body, &threads)));
        assert!(!running.load(Ordering::Relaxed) || caught.is_err());
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"three"));
    }
}
