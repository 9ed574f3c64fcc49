//! Tests `ThreadPool::rayon`: the number of threads for all kinds of callers, panics, and forked children.

use rayon::prelude::*;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use xla_ffi::prelude::*;
use xla_ffi::{
    ErrorCode, Revision,
    embed::{self, Attributes, Call, DType, Runtime, Shape, bundle},
};

/// Records what the threads of a pool did.
struct Seen {
    working: AtomicUsize,
    most: AtomicUsize,
    threads: Mutex<BTreeSet<String>>,
}

/// The records of each pool size. Each test uses different sizes, so tests do not share records.
static SEEN: [Seen; 8] = [const {
    Seen {
        working: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        threads: Mutex::new(BTreeSet::new()),
    }
}; 8];

impl Seen {
    /// Computes a number and records the thread that computes it.
    fn work(&self, index: i64) -> i64 {
        let working = self.working.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(working, Ordering::SeqCst);
        std::thread::sleep(Duration::from_micros(100));
        let thread = std::thread::current();
        let name = format!("{} {:?}", thread.name().unwrap_or("?"), thread.id());
        self.threads.lock().unwrap().insert(name);
        self.working.fetch_sub(1, Ordering::SeqCst);
        index
    }

    fn assert_bounded(&self, size: usize) {
        let threads = self.threads.lock().unwrap();
        assert!(threads.len() <= size, "{threads:?}");
        let ours = |name: &String| name.starts_with("xla-ffi-rayon-");
        assert!(threads.iter().all(ours), "{threads:?}");
        let most = self.most.load(Ordering::SeqCst);
        assert!((1..=size).contains(&most), "{most} at work at once");
    }
}

thread_local! {
    static IS_CALLED: Cell<bool> = const { Cell::new(false) };
}

/// A handler that sums the numbers below 200. On each thread, one call at a time waits for its sum.
#[xla_ffi::handler]
fn sum(pool: ThreadPool, mut y: Out<i64, 0>) -> Result<()> {
    let size = pool.num_threads();
    assert!(!IS_CALLED.replace(true), "another call has this stack");
    let sum = pool.rayon(|| {
        assert_eq!(rayon::current_num_threads(), size);
        let numbers = (0..200).into_par_iter();
        numbers.map(|index| SEEN[size].work(index)).sum()
    });
    IS_CALLED.set(false);
    y.fill(sum?);
    Ok(())
}

fn call(runtime: &Runtime) -> Call {
    let handler = runtime.handler("sum", bundle::<sum>()).unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    executable
        .call()
        .ret(Shape::new(DType::S64, []).unwrap())
        .time_limit(Some(Duration::from_secs(60)))
}

fn assert_sums(runtime: &Runtime) {
    let outcome = call(runtime).run().unwrap();
    assert_eq!(outcome.rets[0].to_vec(), Some(vec![199_i64 * 100]));
}

#[test]
fn all_calls_share_as_many_threads_as_the_host_has() {
    for size in [1, 3] {
        // Two hosts with thread pools of the same size, which several threads call.
        let runtimes = [size, size].map(|size| Runtime::with_threads(Revision::R10, size));
        std::thread::scope(|scope| {
            for caller in 0..6 {
                let runtime = &runtimes[caller % 2];
                scope.spawn(move || (0..5).for_each(|_| assert_sums(runtime)));
            }
        });
        SEEN[size].assert_bounded(size);
    }
}

/// Calls `sum` on the threads of the host's pool.
#[xla_ffi::handler]
fn on_the_host(pool: ThreadPool) -> Result<()> {
    let size = pool.num_threads();
    pool.for_each_range(12, 1, |_| {
        assert_sums(&Runtime::with_threads(Revision::R10, size));
    });
    Ok(())
}

/// As in XLA on CPU, handlers run as tasks of the host's pool. In this test, the host's threads belong to a different
/// rayon pool. A waiting thread of that pool must not start the next call.
#[test]
fn calls_on_the_hosts_threads_wait_for_one_pool() {
    const SIZE: usize = 4;
    let runtime = Runtime::with_threads(Revision::R10, SIZE);
    let handler = runtime.handler("on_the_host", bundle::<on_the_host>());
    let handler = handler.unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let executable = handler.instantiate(&Attributes::new()).unwrap();
                executable.call().run().unwrap();
            });
        }
    });
    SEEN[SIZE].assert_bounded(SIZE);
}

#[xla_ffi::handler]
fn panics(pool: ThreadPool) -> Result<()> {
    pool.rayon(|| {
        (0..100)
            .into_par_iter()
            .for_each(|i| assert_ne!(i, 40, "the fortieth"));
    })
}

#[test]
fn a_panic_in_the_work_is_one_of_the_handler() {
    let error = embed::call::<panics>("{}").unwrap().run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Internal);
    assert!(error.message().contains("the fortieth"), "{error}");
    // After the panic, the rayon pool still works.
    assert_sums(&Runtime::with_threads(Revision::R10, 5));
}

#[xla_ffi::handler]
fn uses_rayon(pool: ThreadPool) -> Result<()> {
    pool.rayon(|| ())
}

/// A forked child has none of the pool's threads. The test runs itself in a separate process without other tests.
#[cfg(unix)]
#[test]
fn a_child_that_is_forked_after_the_first_call_is_refused() {
    const ALONE: &str = "XLA_FFI_TEST_FORKS";
    if std::env::var_os(ALONE).is_none() {
        let status = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_child_that_is_forked_after_the_first_call_is_refused",
            ])
            .env(ALONE, "1")
            .status();
        return assert!(status.unwrap().success());
    }
    let outcome = || embed::call::<uses_rayon>("{}").unwrap().run().map(drop);
    outcome().unwrap();
    // SAFETY: the child continues to run, as a forked Python process does.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the alarm only ends a child that hangs.
        unsafe { libc::alarm(20) };
        let is_refused = std::panic::catch_unwind(|| {
            outcome().is_err_and(|error| error.code() == ErrorCode::FailedPrecondition)
        });
        // SAFETY: `_exit` ends the child without the parent's cleanup.
        unsafe { libc::_exit(i32::from(!is_refused.unwrap_or(false))) };
    }
    let mut status = -1;
    // SAFETY: `child` is a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "{status:#x}");
}
