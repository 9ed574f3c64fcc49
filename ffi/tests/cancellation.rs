//! Calls whose result is no longer needed: cancellation in Rust handlers, deadlines, waiting for calls and
//! shutdown. Also tests the runtime's call counters.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use xla_ffi::prelude::*;
use xla_ffi::{Cancellation, Later};
use xla_ffi::{
    ErrorCode, Revision,
    embed::{self, Attributes, Bundle, Call, Canceller, DType, Runtime, Shape, bundle},
};

/// The number of handlers below that are running. Tests wait for it, so they run one after the other.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// While it is locked, the future of `late` stays pending.
static OPEN: Mutex<()> = Mutex::new(());

const LONG: Duration = Duration::from_secs(60);

fn work(is_cancelled: impl Fn() -> bool) -> Error {
    AT_WORK.fetch_add(1, Ordering::SeqCst);
    while !is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    AT_WORK.fetch_sub(1, Ordering::SeqCst);
    Error::new(ErrorCode::Aborted, "gave up")
}

fn await_work(count: usize) {
    while AT_WORK.load(Ordering::SeqCst) != count {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[xla_ffi::handler]
fn endless(cancellation: Cancellation) -> Result<()> {
    Err(work(|| cancellation.is_cancelled()))
}

#[xla_ffi::handler]
fn late(cancellation: Cancellation, later: Later) -> Result<()> {
    let promise = later.promise(());
    std::thread::spawn(move || {
        let error = work(|| cancellation.clone().is_cancelled());
        drop(OPEN.lock());
        promise.complete(Err(error));
    });
    Ok(())
}

#[xla_ffi::handler]
fn inside(call: embed::Invocation) -> Result<()> {
    let kept = call.cancellation();
    let cancelled = call.is_cancelled();
    assert_eq!(kept.is_cancelled(), cancelled);
    Err(work(|| call.is_cancelled() && kept.is_cancelled()))
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
        // The next call does not even start until the canceller is renewed.
        let error = call.invoke().unwrap_err();
        assert_eq!(error.code(), ErrorCode::Cancelled);
        assert!(error.message().contains("before it started"), "{error}");
    }
}

#[test]
fn a_renewed_call_is_not_cancelled() {
    let runtime = Runtime::default();
    let canceller = Canceller::new();
    let handler = runtime.handler("asks", bundle::<self::asks>()).unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    let call = executable.call().canceller(&canceller);
    let mut call = call.ret(scalar(DType::S32)).prepare().unwrap();
    call.invoke().unwrap();
    canceller.cancel();
    assert_eq!(call.invoke().unwrap_err().code(), ErrorCode::Cancelled);
    call.renew(executable.call()).unwrap();
    call.invoke().unwrap();
    assert_eq!(call.ret_bytes(0).unwrap(), [0; 4]);
    call.renew(executable.call().time_limit(Some(Duration::ZERO)))
        .unwrap();
    assert_eq!(
        call.invoke().unwrap_err().code(),
        ErrorCode::DeadlineExceeded
    );
}

/// Hosts before r9 have no extensions, so the call runs and its handler never sees the cancellation.
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
    // A handler that does not return must check for cancellation itself.
    let error = call(&runtime, "endless", bundle::<endless>())
        .time_limit(soon)
        .run();
    assert_eq!(error.unwrap_err().message(), "endless (execute): gave up");
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
    assert_eq!(
        call.wait_for(None).unwrap_err().message(),
        "late (execute): gave up"
    );
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
    // The call's handle is dropped, but the call is still running.
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
    assert_eq!(error.message(), "endless (execute): gave up");
    assert_eq!(AT_WORK.load(Ordering::SeqCst), 0);
    assert_eq!(
        open.wait().unwrap_err().message(),
        "late (execute): gave up"
    );
    let handler = runtime.handler("asks", bundle::<self::asks>()).unwrap();
    for error in [
        open.invoke().unwrap_err(),
        asks.run().unwrap_err(),
        handler.instantiate(&Attributes::new()).unwrap_err(),
    ] {
        assert_eq!(error.code(), ErrorCode::FailedPrecondition);
        assert!(
            error.message().contains("the runtime was shut down"),
            "{error}"
        );
    }
    runtime.shutdown(Duration::ZERO).unwrap();
}

#[test]
fn calls_are_counted_by_handler_when_asked() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Runtime::default();
    let asked = || call(&runtime, "asks", bundle::<asks>()).ret(scalar(DType::S32));
    asked().run().unwrap();
    assert!(runtime.counts().is_empty());
    runtime.start_counting();
    let mut prepared = asked().prepare().unwrap();
    for _ in 0..3 {
        prepared.invoke().unwrap();
    }
    asked().run().unwrap();
    let canceller = Canceller::new();
    let open = call(&runtime, "late", bundle::<late>()).canceller(&canceller);
    let mut open = open.prepare().unwrap();
    assert!(!open.start().unwrap());
    let long = Duration::from_millis(50);
    std::thread::sleep(long);
    assert_eq!(runtime.counts().len(), 1, "the other one is not over");
    canceller.cancel();
    assert!(open.wait_for(None).is_err());
    runtime.stop_counting();
    prepared.invoke().unwrap();
    let counts = runtime.counts();
    let row = |name: &str| counts.iter().find(|counts| counts.name == name).unwrap();
    assert_eq!((row("asks").calls, row("asks").errors), (4, 0));
    assert_eq!((row("late").calls, row("late").errors), (1, 1));
    assert!(row("late").time >= long, "{counts:?}");
}
