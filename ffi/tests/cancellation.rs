//! Tests calls whose result is no longer needed: cancellation in Rust handlers, deadlines, waiting for calls
//! and shutdown. Also tests the runtime's call counters.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use xla_ffi::prelude::*;
use xla_ffi::{Cancellation, Later};
use xla_ffi::{
    ErrorCode, Revision,
    embed::{self, Attributes, Bundle, Call, Canceller, DType, Execution, Runtime, Shape, bundle},
};

/// The number of handlers of these tests that are running. Tests wait until this number has the expected value.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// While this mutex is locked, the future of `late` stays pending.
static OPEN: Mutex<()> = Mutex::new(());

const LONG: Duration = Duration::from_secs(60);

/// Runs until `reason` returns a code, and returns an error with this code.
fn work(reason: impl Fn() -> Option<ErrorCode>) -> Error {
    AT_WORK.fetch_add(1, Ordering::SeqCst);
    let reason = loop {
        match reason() {
            Some(reason) => break reason,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    AT_WORK.fetch_sub(1, Ordering::SeqCst);
    Error::new(reason, "gave up")
}

fn await_work(count: usize) {
    while AT_WORK.load(Ordering::SeqCst) != count {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[xla_ffi::handler]
fn endless(cancellation: Cancellation) -> Result<()> {
    let error = work(|| cancellation.reason());
    let checked = cancellation.check().unwrap_err();
    assert_eq!(checked.code(), error.code());
    Err(error)
}

#[xla_ffi::handler]
fn late(cancellation: Cancellation, later: Later) -> Result<()> {
    let promise = later.promise(());
    std::thread::spawn(move || {
        let error = work(|| cancellation.clone().reason());
        drop(OPEN.lock());
        promise.complete(Err(error));
    });
    Ok(())
}

#[xla_ffi::handler]
fn inside(call: embed::Invocation) -> Result<()> {
    let kept = call.cancellation();
    let cancelled = call.cancelled();
    assert_eq!(kept.reason(), cancelled);
    Err(work(|| call.cancelled().and(kept.reason())))
}

#[xla_ffi::handler]
fn asks(cancellation: Cancellation, mut y: Out<i32, 0>) -> Result<()> {
    y.fill(cancellation.is_cancelled().into());
    Ok(())
}

fn call(runtime: &Runtime, name: &str, bundle: Bundle) -> Call {
    let handler = runtime.handler(name, bundle).unwrap();
    handler.instantiate(&Attributes::new()).unwrap().call()
}

fn scalar(dtype: DType) -> Shape {
    Shape::new(dtype, []).unwrap()
}

#[test]
fn handlers_see_that_they_are_cancelled() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Runtime::default();
    let calls = [
        call(&runtime, "endless", bundle::<endless>()),
        call(&runtime, "late", bundle::<late>()),
        call(&runtime, "inside", bundle::<inside>()),
    ];
    for call in calls {
        let canceller = Canceller::new();
        let mut call = call.canceller(&canceller).prepare().unwrap();
        let error = std::thread::scope(|scope| {
            let running = scope.spawn(|| call.invoke());
            await_work(1);
            canceller.cancel();
            running.join().unwrap().unwrap_err()
        });
        assert!(error.message().ends_with(" (execute): gave up"), "{error}");
        assert_eq!(error.code(), ErrorCode::Cancelled);
        // The next call with this canceller does not start until the canceller is renewed.
        let error = call.invoke().unwrap_err();
        assert_eq!(error.code(), ErrorCode::Cancelled);
        assert!(error.message().contains("before it started"), "{error}");
    }
}

#[test]
fn each_execution_has_its_own_canceller_and_time_limit() {
    let runtime = Runtime::default();
    let canceller = Canceller::new();
    let call = call(&runtime, "asks", bundle::<self::asks>()).canceller(&canceller);
    let mut call = call.ret(scalar(DType::S32)).prepare().unwrap();
    call.invoke().unwrap();
    canceller.cancel();
    assert_eq!(call.invoke().unwrap_err().code(), ErrorCode::Cancelled);
    call.settings().unwrap().canceller(None);
    call.invoke().unwrap();
    assert_eq!(call.ret_bytes(0).unwrap(), [0; 4]);
    for (limit, code) in [
        (Some(Duration::ZERO), Some(ErrorCode::DeadlineExceeded)),
        (Some(LONG), None),
        (None, None),
    ] {
        call.settings().unwrap().time_limit(limit);
        let outcome = call.invoke();
        assert_eq!(outcome.err().map(|error| error.code()), code, "{limit:?}");
    }
}

/// Hosts before r9 have no extensions, so the call runs and its handler is not notified of the cancellation.
#[test]
fn older_hosts_never_cancel() {
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let canceller = Canceller::new();
        let call = call(&runtime, "asks", bundle::<asks>()).ret(scalar(DType::S32));
        let outcome = call.canceller(&canceller).run().unwrap();
        assert_eq!(outcome.rets[0].as_slice(), Some(&[0][..]), "{revision}");
    }
}

#[test]
fn time_limits_are_kept_and_seen() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Runtime::default();
    let soon = Some(Duration::from_millis(500));
    // A handler that runs until it is cancelled must check for the cancellation itself.
    let error = call(&runtime, "endless", bundle::<endless>())
        .time_limit(soon)
        .run();
    assert_eq!(error.unwrap_err().code(), ErrorCode::DeadlineExceeded);
    // If the handler has returned, the runtime stops waiting for the call.
    let call = call(&runtime, "late", bundle::<late>());
    let mut call = call.time_limit(soon).prepare().unwrap();
    let held = OPEN.lock().unwrap();
    assert_eq!(
        call.invoke().unwrap_err().code(),
        ErrorCode::DeadlineExceeded
    );
    assert!(call.is_open());
    assert_eq!(call.wait().unwrap_err().code(), ErrorCode::DeadlineExceeded);
    drop(held);
    let error = call.wait_for(None).unwrap_err();
    assert_eq!(error.message(), "late (execute): gave up");
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
}

#[test]
fn a_shutdown_names_who_is_late_and_refuses_what_comes() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Runtime::default();
    runtime.wait_for_calls(None).unwrap();
    let canceller = Canceller::new();
    let mut open = call(&runtime, "late", bundle::<late>()).prepare().unwrap();
    let asks = call(&runtime, "asks", bundle::<self::asks>()).ret(scalar(DType::S32));
    let other = Runtime::default();
    let mut gone = call(&runtime, "dropped", bundle::<late>())
        .prepare()
        .unwrap();
    assert!(!open.start().unwrap() && !gone.start().unwrap());
    // The program drops the call's handle, but the call is still running.
    drop(gone);
    let error = std::thread::scope(|scope| {
        let endless = call(&runtime, "endless", bundle::<endless>()).canceller(&canceller);
        let running = scope.spawn(|| endless.run());
        await_work(3);
        let late = runtime.wait_for_calls(Some(Duration::from_millis(1)));
        assert_eq!(
            late.unwrap_err().message(),
            "after 1ms calls are under way: 1 of 'dropped' (its future is open), 1 of 'endless' (the \
             handler has not returned), 1 of 'late' (its future is open)"
        );
        other.shutdown(Duration::ZERO).unwrap();
        runtime.shutdown(LONG).unwrap();
        running.join().unwrap().unwrap_err()
    });
    assert_eq!(error.code(), ErrorCode::Unavailable);
    assert_eq!(AT_WORK.load(Ordering::SeqCst), 0);
    assert_eq!(open.wait().unwrap_err().code(), ErrorCode::Unavailable);
    let handler = runtime.handler("asks", bundle::<self::asks>()).unwrap();
    for error in [
        open.invoke().unwrap_err(),
        asks.run().unwrap_err(),
        handler.instantiate(&Attributes::new()).unwrap_err(),
    ] {
        assert_eq!(error.code(), ErrorCode::Unavailable);
        assert!(
            error.message().contains("the runtime was shut down"),
            "{error}"
        );
    }
    runtime.shutdown(Duration::ZERO).unwrap();
}

#[test]
fn executions_are_counted_by_handler_and_outcome() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Runtime::default();
    let row = |name: &str| {
        let mut counts = runtime.counts().into_iter();
        let row = counts.find(|counts| counts.name == name);
        row.map(|row| (row.in_flight, row.succeeded, row.failed))
    };
    assert_eq!(row("asks"), None);
    let asked = || call(&runtime, "asks", bundle::<asks>()).ret(scalar(DType::S32));
    let mut prepared = asked().prepare().unwrap();
    let mut clone = prepared.try_clone().unwrap();
    for _ in 0..3 {
        prepared.invoke().unwrap();
    }
    // Successes are counted for existing calls and for dropped calls.
    clone.invoke().unwrap();
    drop(clone);
    asked().run().unwrap();
    assert_eq!(row("asks"), Some((0, 5, vec![])));
    // Refused calls are counted by error code.
    let canceller = Canceller::new();
    canceller.cancel();
    for _ in 0..2 {
        asked().canceller(&canceller).run().unwrap_err();
    }
    prepared
        .settings()
        .unwrap()
        .time_limit(Some(Duration::ZERO));
    prepared.invoke().unwrap_err();
    let mut failed = vec![(ErrorCode::Cancelled, 2), (ErrorCode::DeadlineExceeded, 1)];
    assert_eq!(row("asks"), Some((0, 5, failed.clone())));
    // An exceeded time limit counts once, even if the handler later ends with a different error or the call is
    // dropped.
    let late = call(&runtime, "late", bundle::<late>()).time_limit(Some(Duration::from_millis(20)));
    let mut open = late.clone().prepare().unwrap();
    let mut gone = late.prepare().unwrap();
    let held = OPEN.lock().unwrap();
    open.invoke().unwrap_err();
    open.wait().unwrap_err();
    gone.start().unwrap();
    drop(gone);
    // Both calls exceed their time limit, but remain open because the mutex is locked.
    std::thread::sleep(Duration::from_millis(40));
    await_work(0);
    assert_eq!(
        row("late"),
        Some((2, 0, vec![(ErrorCode::DeadlineExceeded, 1)]))
    );
    drop(held);
    open.wait_for(None).unwrap_err();
    runtime.shutdown(LONG).unwrap();
    assert_eq!(
        row("late"),
        Some((0, 0, vec![(ErrorCode::DeadlineExceeded, 2)]))
    );
    prepared.settings().unwrap().time_limit(None);
    prepared.invoke().unwrap_err();
    failed.push((ErrorCode::Unavailable, 1));
    assert_eq!(row("asks"), Some((0, 5, failed)));
}

#[test]
fn ends_of_executions_are_observed() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Runtime::default();
    let seen = Arc::new(Mutex::new(vec![]));
    let told = seen.clone();
    let observe = move |it: &Execution<'_>| {
        let row = (it.handler.to_owned(), it.run_id, it.code, it.duration);
        told.lock().unwrap().push(row);
    };
    runtime.observe(3, observe).unwrap();
    let error = runtime.observe(1, |_| ()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::AlreadyExists);
    let mut asks = call(&runtime, "asks", bundle::<asks>())
        .ret(scalar(DType::S32))
        .prepare()
        .unwrap();
    for run_id in 0..7 {
        asks.settings().unwrap().run_id(run_id);
        asks.invoke().unwrap();
    }
    let numbers: Vec<_> = seen.lock().unwrap().drain(..).map(|row| row.1).collect();
    assert_eq!(numbers, [0, 3, 6]);
    let limit = Duration::from_millis(30);
    let late = call(&runtime, "late", bundle::<late>())
        .run_id(7)
        .time_limit(Some(limit));
    late.run().unwrap_err();
    runtime.wait_for_calls(None).unwrap();
    let rows = std::mem::take(&mut *seen.lock().unwrap());
    let [(name, 7, Some(ErrorCode::DeadlineExceeded), duration)] = &rows[..] else {
        panic!("{rows:?}");
    };
    assert!(name == "late" && *duration >= limit, "{rows:?}");
}
