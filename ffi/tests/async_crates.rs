//! Tests `async fn` handlers that use common crates: timers that wake while they hold a lock, channels and joins.
//! Also tests bodies that block, that wake each other in long chains, and that are never woken.
#![forbid(unsafe_code)]

use futures::stream::{FuturesUnordered, StreamExt};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use xla_ffi::embed::bundle;
use xla_ffi::prelude::*;
use xla_ffi_runtime::{Attributes, Call, DType, Executable, PreparedCall, Revision, Shape};

/// A revision without futures, the first revision with futures, and the newest revision.
const REVISIONS: [Revision; 3] = [Revision::R0, Revision::R2, Revision::R10];

/// The time after which a test that hangs fails.
const LIMIT: Duration = Duration::from_secs(30);

fn load<H: xla_ffi::__private::Handler>(revision: Revision, attrs: &str) -> Executable {
    // With one thread in the host's pool, a handler that needs a second thread hangs.
    let runtime = xla_ffi_runtime::Runtime::with_threads(revision, 1);
    let handler = runtime.handler(H::INFO.name, bundle::<H>()).unwrap();
    let attrs = Attributes::parse(attrs).unwrap();
    handler.instantiate(&attrs).unwrap()
}

fn number(executable: &Executable) -> Call {
    let shape = Shape::new(DType::S64, []).unwrap();
    executable.call().ret(shape).time_limit(Some(LIMIT))
}

/// Returns the number that a handler computes.
fn run<H: xla_ffi::__private::Handler>(revision: Revision, how: &str) -> Result<i64, String> {
    let executable = load::<H>(revision, &format!("{{how = \"{how}\"}}"));
    let outcome = number(&executable).run();
    let outcome = outcome.map_err(|error| error.message().to_owned())?;
    Ok(outcome.rets[0].to_vec::<i64>().unwrap()[0])
}

/// The timer of the book "Asynchronous Programming in Rust". It wakes the task while it holds the lock that its
/// future also acquires.
struct TimerFuture {
    shared_state: Arc<Mutex<SharedState>>,
}

struct SharedState {
    completed: bool,
    waker: Option<Waker>,
}

impl Future for TimerFuture {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut shared_state = self.shared_state.lock().unwrap();
        if shared_state.completed {
            Poll::Ready(())
        } else {
            shared_state.waker = Some(cx.waker().clone());
            Poll::Pending
        }
    }
}

impl TimerFuture {
    fn new(duration: Duration) -> Self {
        let shared_state = Arc::new(Mutex::new(SharedState {
            completed: false,
            waker: None,
        }));
        let thread_shared_state = shared_state.clone();
        thread::spawn(move || {
            thread::sleep(duration);
            let mut shared_state = thread_shared_state.lock().unwrap();
            shared_state.completed = true;
            if let Some(waker) = shared_state.waker.take() {
                waker.wake();
            }
        });
        Self { shared_state }
    }

    fn ms(ms: u64) -> Self {
        Self::new(Duration::from_millis(ms))
    }
}

#[xla_ffi::handler]
async fn timers(how: &str, mut y: Out<i64, 0>) {
    let start = Instant::now();
    match how {
        "one" => TimerFuture::ms(10).await,
        "in turn" => {
            for _ in 0..5 {
                TimerFuture::ms(2).await;
            }
        }
        "at once" => TimerFuture::ms(0).await,
        "joined" => {
            futures::join!(TimerFuture::ms(10), TimerFuture::ms(5), TimerFuture::ms(0));
        }
        _ => {
            let mut timers: FuturesUnordered<_> =
                (0..100).map(|i| TimerFuture::ms(i % 7)).collect();
            while timers.next().await.is_some() {}
        }
    }
    y.fill(start.elapsed().as_millis() as i64);
}

#[test]
fn timers_that_wake_under_their_lock() {
    for revision in REVISIONS {
        for (how, least) in [
            ("one", 10),
            ("in turn", 10),
            ("at once", 0),
            ("joined", 10),
            ("", 6),
        ] {
            let ms = run::<timers>(revision, how).unwrap();
            assert!(ms >= least, "{revision} {how}: {ms} ms");
        }
    }
}

/// Sums the numbers that a different thread sends: 5050.
#[xla_ffi::handler]
async fn channels(how: &str, mut y: Out<i64, 0>) -> Result<()> {
    let mut sum = 0;
    match how {
        "async-channel" => {
            let (sender, receiver) = async_channel::bounded(3);
            thread::spawn(move || (1..=100).try_for_each(|i| sender.send_blocking(i)));
            while let Ok(number) = receiver.recv().await {
                sum += number;
            }
        }
        "tokio oneshot" => {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            thread::spawn(move || sender.send(5050));
            sum = receiver.await.map_err(|error| error.to_string())?;
        }
        _ => {
            // The sender is dropped without sending. The call fails with an error that explains this, and does not
            // hang.
            let (sender, receiver) = tokio::sync::oneshot::channel::<i64>();
            thread::spawn(move || drop(sender));
            sum = receiver.await.map_err(|error| error.to_string())?;
        }
    }
    y.fill(sum);
    Ok(())
}

#[test]
fn channels_of_the_usual_crates() {
    for revision in REVISIONS {
        for how in ["async-channel", "tokio oneshot"] {
            assert_eq!(run::<channels>(revision, how), Ok(5050), "{revision} {how}");
        }
        assert_eq!(
            run::<channels>(revision, ""),
            Err("channels (execute): channel closed".into())
        );
    }
}

/// Starts all calls on this thread at once and returns their results.
fn together(calls: impl IntoIterator<Item = Call>) -> Vec<Result<i64, String>> {
    let prepare = |call: Call| call.prepare().unwrap();
    let mut calls: Vec<PreparedCall> = calls.into_iter().map(prepare).collect();
    let say = |error: xla_ffi_runtime::Error| error.message().to_owned();
    let mut started: Vec<_> = calls
        .iter_mut()
        .map(|call| call.start().map_err(say))
        .collect();
    let ended = calls
        .iter_mut()
        .zip(started.drain(..))
        .map(|(call, started)| {
            if !started? {
                call.wait().map_err(say)?;
            }
            let bytes = call.ret_bytes(0).map_err(say)?;
            Ok(i64::from_ne_bytes(bytes.try_into().unwrap()))
        });
    ended.collect()
}

/// Blocks its thread until all `calls` calls have blocked their threads.
#[xla_ffi::handler]
async fn blocks(calls: i64, when: &str, mut y: Out<i64, 0>) {
    static BARRIERS: Mutex<Vec<(i64, Arc<Barrier>)>> = Mutex::new(Vec::new());
    if when == "later" {
        TimerFuture::ms(1).await;
    }
    let barrier = {
        let mut barriers = BARRIERS.lock().unwrap();
        match barriers.iter().find(|(number, _)| *number == calls) {
            Some((_, barrier)) => barrier.clone(),
            None => {
                let barrier = Arc::new(Barrier::new(calls as usize));
                barriers.push((calls, barrier.clone()));
                barrier
            }
        }
    };
    barrier.wait();
    y.fill(calls);
}

#[test]
fn a_body_that_blocks_does_not_stop_others() {
    for (calls, when) in [(40, "first"), (41, "later")] {
        let attrs = format!("{{calls = {calls} : i64, when = \"{when}\"}}");
        let executable = load::<blocks>(Revision::R10, &attrs);
        let all = together((0..calls).map(|_| number(&executable)));
        assert_eq!(all, vec![Ok(calls); calls as usize], "{when}");
    }
}

type Sender = futures::channel::oneshot::Sender<i64>;
type Receiver = futures::channel::oneshot::Receiver<i64>;

static CHAIN: Mutex<Vec<(Receiver, Option<Sender>)>> = Mutex::new(Vec::new());

/// Waits for the preceding link of the chain, and wakes the next link.
#[xla_ffi::handler]
async fn link(mut y: Out<i64, 0>) -> Result<()> {
    let link = CHAIN.lock().unwrap().pop();
    let (receiver, sender) = link.ok_or("no more links")?;
    let number = receiver.await.map_err(|error| error.to_string())?;
    if let Some(sender) = sender {
        sender.send(number + 1).map_err(|_| "nobody waits")?;
    }
    y.fill(number);
    Ok(())
}

#[test]
fn chains_of_thousands_of_wakers_do_not_recurse() {
    const LINKS: i64 = 5_000;
    let (first, mut receiver) = futures::channel::oneshot::channel();
    let mut links = Vec::new();
    for _ in 1..LINKS {
        let (sender, next) = futures::channel::oneshot::channel();
        links.push((std::mem::replace(&mut receiver, next), Some(sender)));
    }
    links.push((receiver, None));
    *CHAIN.lock().unwrap() = links;
    let executable = load::<link>(Revision::R10, "{}");
    // The chain starts when all links wait, on a thread with a small stack.
    let start = thread::Builder::new().stack_size(64 << 10).spawn(move || {
        while !CHAIN.lock().unwrap().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        first.send(0)
    });
    let all = together((0..LINKS).map(|_| number(&executable)));
    start.unwrap().join().unwrap().unwrap();
    let mut all: Vec<i64> = all.into_iter().map(Result::unwrap).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..LINKS));
}

/// A future that passes its waker to code that drops the waker.
struct Abandoned;

impl Future for Abandoned {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let waker = context.waker().clone();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(5));
            drop(waker);
        });
        Poll::Pending
    }
}

#[xla_ffi::handler]
async fn lost(how: &str, mut y: Out<i64, 0>) {
    if how == "at once" {
        std::future::pending::<()>().await;
    } else if how == "later" {
        TimerFuture::ms(1).await;
        std::future::pending::<()>().await;
    }
    Abandoned.await;
    y.fill(1);
}

#[test]
fn a_body_that_nobody_can_wake_fails_its_call() {
    for revision in REVISIONS {
        for when in ["at once", "later", "elsewhere"] {
            let start = Instant::now();
            assert_eq!(
                run::<lost>(revision, when),
                Err(
                    "lost (execute): its future can never be woken, because all wakers were dropped while it was pending"
                        .to_owned()
                ),
                "{revision} {when}"
            );
            assert!(start.elapsed() < LIMIT / 2);
        }
    }
}
