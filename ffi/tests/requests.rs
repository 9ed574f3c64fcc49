//! Tests features for servers: executions as futures, threads of `async fn` handlers, and handlers that the linker
//! omitted.

use std::future::Future;
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use xla_ffi::embed::device::Executor;
use xla_ffi::embed::{self, Attributes, Call, Canceller, DType, Runtime, Shape, bundle};
use xla_ffi::prelude::*;
use xla_ffi::{Cancellation, ErrorCode, Revision};

const LONG: Duration = Duration::from_secs(30);

/// While this mutex is locked, calls of `blocks` stay open.
static GATE: Mutex<()> = Mutex::new(());
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// A handler that blocks its thread until `GATE` is unlocked.
#[xla_ffi::handler]
async fn blocks(mut y: Out<i64, 0>) {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    drop(GATE.lock().unwrap_or_else(PoisonError::into_inner));
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    y.fill(7);
}

/// A handler that waits without blocking a thread, and checks every millisecond whether the call is
/// cancelled.
#[xla_ffi::handler]
async fn polls(cancellation: Cancellation) -> Result<()> {
    loop {
        cancellation.check()?;
        tick().await;
    }
}

/// A handler that stays pending, and stores its wakers in `HUNG`.
#[xla_ffi::handler]
async fn hangs() {
    std::future::poll_fn::<(), _>(|context| {
        HUNG.lock().unwrap().push(context.waker().clone());
        Poll::Pending
    })
    .await;
}
static HUNG: Mutex<Vec<Waker>> = Mutex::new(vec![]);

async fn tick() {
    let mut is_over = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut is_over, true) {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(1));
            waker.wake();
        });
        Poll::Pending
    })
    .await;
}

fn call<H: xla_ffi::__private::Handler>(runtime: &Runtime) -> Call {
    let handler = runtime.handler(H::INFO.name, bundle::<H>()).unwrap();
    handler.instantiate(&Attributes::new()).unwrap().call()
}

fn number(runtime: &Runtime) -> Call {
    call::<blocks>(runtime).ret(Shape::new(DType::S64, []).unwrap())
}

/// Runs a future on the calling thread, without an executor crate.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park_timeout(LONG),
        }
    }
}

#[test]
fn executions_are_futures_for_any_executor() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Runtime::default();
    let mut call = number(&runtime).prepare().unwrap();
    block_on(call.invoke_async()).unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    tokio.block_on(call.invoke_async()).unwrap();
    assert_eq!(call.ret_bytes(0).unwrap(), 7_i64.to_ne_bytes());
    // One thread waits for many calls at the same time.
    let mut calls: Vec<_> = (0..20).map(|_| call.try_clone().unwrap()).collect();
    let held = GATE.lock().unwrap();
    let all = futures::future::join_all(calls.iter_mut().map(|call| call.invoke_async()));
    let opener = std::thread::spawn(|| {
        while INSIDE.load(Ordering::SeqCst) < 20 {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let mut all = pin!(all);
    let waker = Waker::noop();
    assert!(
        all.as_mut()
            .poll(&mut Context::from_waker(waker))
            .is_pending()
    );
    opener.join().unwrap();
    drop(held);
    assert!(block_on(all).into_iter().all(|outcome| outcome.is_ok()));
}

#[test]
fn a_future_ends_with_its_time_limit_and_may_be_dropped() {
    let runtime = Runtime::default();
    // `hangs` ignores the time limit, so the expired limit wakes the future. `polls` checks the limit and ends with
    // the same code.
    for call in [call::<hangs>(&runtime), call::<polls>(&runtime)] {
        let mut call = call.prepare().unwrap();
        let limit = Duration::from_millis(50);
        call.settings().unwrap().time_limit(Some(limit));
        let begun = Instant::now();
        let error = block_on(call.invoke_async()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
        assert!(begun.elapsed() >= limit && begun.elapsed() < LONG);
    }
    // After the call's future is dropped, the call can still be cancelled. A cancelled call does not start again.
    let canceller = Canceller::new();
    let mut call = call::<polls>(&runtime)
        .canceller(&canceller)
        .prepare()
        .unwrap();
    let mut future = Box::pin(call.invoke_async());
    assert!(
        future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    drop(future);
    assert!(call.is_open());
    canceller.cancel();
    assert_eq!(
        call.wait_for(Some(LONG)).unwrap_err().code(),
        ErrorCode::Cancelled
    );
    let error = block_on(call.invoke_async()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Cancelled);
    let counts = runtime.counts();
    let failed = |name: &str| &counts.iter().find(|it| it.name == name).unwrap().failed;
    assert_eq!(*failed("hangs"), [(ErrorCode::DeadlineExceeded, 1)]);
    assert_eq!(
        *failed("polls"),
        [(ErrorCode::Cancelled, 2), (ErrorCode::DeadlineExceeded, 1)]
    );
}

/// Threads of the program, which count the tasks that the program receives.
struct Threads {
    run: AtomicUsize,
    drops: bool,
}

impl Executor for Threads {
    fn execute(&self, task: Box<dyn FnOnce() + Send>) {
        self.run.fetch_add(1, Ordering::SeqCst);
        if !self.drops {
            std::thread::Builder::new()
                .name("the program's".to_owned())
                .spawn(task)
                .unwrap();
        }
    }

    fn num_threads(&self) -> usize {
        4
    }
}

#[xla_ffi::handler]
async fn names_its_thread(mut y: Out<i64, 0>) {
    tick().await;
    let name = std::thread::current().name().map(str::to_owned);
    y.fill(i64::from(name.as_deref() == Some("the program's")));
}

#[test]
fn the_programs_executor_runs_async_handlers() {
    let scalar = || Shape::new(DType::S64, []).unwrap();
    for revision in [Revision::R8, Revision::R9, Revision::R10] {
        let runtime = Runtime::new(revision);
        let threads = Arc::new(Threads {
            run: AtomicUsize::new(0),
            drops: false,
        });
        let executor: Arc<dyn Executor> = threads.clone();
        let call = call::<names_its_thread>(&runtime).executor(executor);
        let outcome = call.ret(scalar()).run().unwrap();
        let is_theirs = revision >= Revision::R9;
        assert_eq!(
            outcome.rets[0].to_vec(),
            Some(vec![i64::from(is_theirs)]),
            "{revision}"
        );
        // The start of the body is one task, and each wake is one task.
        assert_eq!(
            threads.run.load(Ordering::SeqCst),
            2 * usize::from(is_theirs)
        );
    }
    // If the program drops a task, the call fails.
    let runtime = Runtime::default();
    let executor: Arc<dyn Executor> = Arc::new(Threads {
        run: AtomicUsize::new(0),
        drops: true,
    });
    let call = call::<names_its_thread>(&runtime).executor(executor);
    let error = call.ret(scalar()).time_limit(Some(LONG)).run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::ResourceExhausted);
    assert!(error.message().contains("executor"), "{error}");
}

/// The limits are read once per process, so the test runs itself in a child process with different limits.
#[test]
fn threads_of_async_handlers_have_a_limit_and_a_queue() {
    const NAME: &str = "threads_of_async_handlers_have_a_limit_and_a_queue";
    if std::env::var_os("XLA_FFI_ASYNC_QUEUE").is_none() {
        let done = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env("XLA_FFI_ASYNC_THREADS", "3")
            .env("XLA_FFI_ASYNC_QUEUE", "5")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{told}");
        let warnings = told.matches("XLA_FFI_ASYNC_THREADS").count();
        return assert_eq!(warnings, 1, "{told}");
    }
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let runtime = Runtime::default();
    let held = GATE.lock().unwrap();
    let mut under_way = call::<hangs>(&runtime).prepare().unwrap();
    assert!(!under_way.start().unwrap());
    while HUNG.lock().unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut calls: Vec<_> = (0..20)
        .map(|_| number(&runtime).prepare().unwrap())
        .collect();
    let mut refused = 0;
    for (index, call) in calls.iter_mut().enumerate() {
        if let Err(error) = call.start() {
            assert_eq!(error.code(), ErrorCode::ResourceExhausted);
            assert!(error.message().contains("XLA_FFI_ASYNC_QUEUE"), "{error}");
            refused += 1;
        }
        while INSIDE.load(Ordering::SeqCst) < 3.min(index + 1) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if index == 3 {
            // The fourth call waits for more than a second, so the next call causes a warning.
            std::thread::sleep(Duration::from_millis(1100));
            assert_eq!(threads() - before, 3);
        }
    }
    // Three calls run and five calls wait. Calls that have started are not refused.
    assert_eq!(refused, 20 - 3 - 5);
    HUNG.lock().unwrap().drain(..).for_each(Waker::wake);
    assert!(under_way.is_open());
    let blocked = &runtime.counts()[0];
    assert_eq!(blocked.failed, [(ErrorCode::ResourceExhausted, refused)]);
    assert_eq!(blocked.in_flight, 8);
    drop(held);
    for call in &mut calls {
        call.wait().unwrap();
    }
    assert_eq!(runtime.counts()[0].succeeded, 8);
}

/// Calls that wait without blocking need no thread.
#[test]
fn two_thousand_hung_calls_take_no_threads() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let runtime = Runtime::default();
    let mut calls: Vec<_> = (0..2000)
        .map(|_| call::<hangs>(&runtime).prepare().unwrap())
        .collect();
    for call in &mut calls {
        assert!(!call.start().unwrap());
    }
    let most = 300;
    assert!(threads() < most, "{}", threads());
    assert_eq!(runtime.counts()[0].in_flight, 2000);
}

#[xla_ffi::handler]
fn there() {}
embed::register_handler!("tests.there", "Host", there);

#[test]
fn a_program_requires_its_handlers() {
    let runtime = Runtime::default();
    let error = runtime.require("Host", ["tests.there"]).unwrap_err();
    assert!(error.message().contains("register_static"), "{error}");
    runtime.register_static().unwrap();
    runtime.require("cpu", ["tests.there"]).unwrap();
    runtime.require("cpu", []).unwrap();
    let error = runtime
        .require("Host", ["tests.lost", "tests.there", "tests.gone"])
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound);
    for part in ["'tests.lost', 'tests.gone'", "as _", "whole-archive"] {
        assert!(error.message().contains(part), "{error}");
    }
    assert!(runtime.require("CUDA", ["tests.there"]).is_err());
}
