//! `async fn` handlers that await what people await: timers that wake under their lock, channels, joins
//! and locks of the usual crates; bodies that block, that wake each other in long chains, that nobody
//! wakes, and whose destructors panic. No handler here could do harm by itself: all is safe code.
#![forbid(unsafe_code)]

use futures::stream::{FuturesUnordered, StreamExt};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use xla_ffi::Later;
use xla_ffi::internal::bundle;
use xla_ffi::prelude::*;
use xla_ffi_runtime::{Attributes, Call, Code, DType, Executable, PreparedCall, Revision, Shape};

/// Revisions without futures, the first with them, and the newest.
const REVISIONS: [Revision; 3] = [Revision::R0, Revision::R2, Revision::R10];

/// What hangs fails the test instead.
const LIMIT: Duration = Duration::from_secs(30);

fn load<H: xla_ffi::__private::Handler>(revision: Revision, attrs: &str) -> Executable {
    // One thread in the host's pool: a handler that needs a second one hangs.
    let runtime = xla_ffi_runtime::Runtime::with_threads(revision, 1);
    let handler = runtime.handler(H::INFO.name, bundle::<H>()).unwrap();
    let attrs = Attributes::parse(attrs).unwrap();
    handler.instantiate(&attrs).unwrap()
}

fn number(executable: &Executable) -> Call {
    let shape = Shape::new(DType::S64, []).unwrap();
    executable.call().ret(shape).time_limit(Some(LIMIT))
}

/// The number that a handler gives.
fn run<H: xla_ffi::__private::Handler>(revision: Revision, how: &str) -> Result<i64, String> {
    let executable = load::<H>(revision, &format!("{{how = \"{how}\"}}"));
    let outcome = number(&executable).run();
    let outcome = outcome.map_err(|error| error.message().to_owned())?;
    Ok(outcome.rets[0].to_vec::<i64>().unwrap()[0])
}

/// The timer of the book "Asynchronous Programming in Rust": it wakes while it holds the lock that its
/// future takes.
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

/// Sums what another thread sends, to 5050.
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
        "futures mpsc" => {
            let (sender, mut receiver) = futures::channel::mpsc::unbounded();
            thread::spawn(move || (1..=100).try_for_each(|i| sender.unbounded_send(i)));
            while let Some(number) = receiver.next().await {
                sum += number;
            }
        }
        "futures oneshot" => {
            let (sender, receiver) = futures::channel::oneshot::channel();
            thread::spawn(move || sender.send(5050));
            sum = receiver.await.map_err(|error| error.to_string())?;
        }
        "tokio mpsc" => {
            let (sender, mut receiver) = tokio::sync::mpsc::channel(3);
            thread::spawn(move || (1..=100).try_for_each(|i| sender.blocking_send(i)));
            while let Some(number) = receiver.recv().await {
                sum += number;
            }
        }
        "tokio oneshot" => {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            thread::spawn(move || sender.send(5050));
            sum = receiver.await.map_err(|error| error.to_string())?;
        }
        _ => {
            // The sender goes without a word: no hang, and the error says so.
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
        for how in [
            "async-channel",
            "futures mpsc",
            "futures oneshot",
            "tokio mpsc",
            "tokio oneshot",
        ] {
            assert_eq!(run::<channels>(revision, how), Ok(5050), "{revision} {how}");
        }
        assert_eq!(run::<channels>(revision, ""), Err("channel closed".into()));
    }
}

/// What two calls share: one of them waits for the other.
struct Meeting {
    notify: tokio::sync::Notify,
    semaphore: tokio::sync::Semaphore,
    mutex: tokio::sync::Mutex<i64>,
    barrier: tokio::sync::Barrier,
}

fn meeting() -> &'static Meeting {
    static MEETING: OnceLock<Meeting> = OnceLock::new();
    MEETING.get_or_init(|| Meeting {
        notify: tokio::sync::Notify::new(),
        semaphore: tokio::sync::Semaphore::new(2),
        mutex: tokio::sync::Mutex::new(0),
        barrier: tokio::sync::Barrier::new(8),
    })
}

#[xla_ffi::handler]
async fn locks(how: &str, mut y: Out<i64, 0>) -> Result<()> {
    let Meeting {
        notify,
        semaphore,
        mutex,
        barrier,
    } = meeting();
    match how {
        "wait" => notify.notified().await,
        "notify" => notify.notify_one(),
        "semaphore" => {
            let _permit = semaphore
                .acquire()
                .await
                .map_err(|error| error.to_string())?;
            TimerFuture::ms(1).await;
        }
        "barrier" => {
            barrier.wait().await;
        }
        _ => {
            let mut held = mutex.lock().await;
            let before = *held;
            TimerFuture::ms(1).await; // the lock is held meanwhile
            assert_eq!(*held, before);
            *held += 1;
            y.fill(before);
            return Ok(());
        }
    }
    y.fill(0);
    Ok(())
}

/// Starts calls at once, from this thread, and gives what became of each.
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

#[test]
fn locks_of_tokio_between_calls() {
    for revision in [Revision::R2, Revision::R10] {
        let hows = |how: &str| load::<locks>(revision, &format!("{{how = \"{how}\"}}"));
        let (wait, notify) = (hows("wait"), hows("notify"));
        for calls in [[&wait, &notify], [&notify, &wait]] {
            assert_eq!(together(calls.map(number)), [Ok(0), Ok(0)]);
        }
        for how in ["semaphore", "barrier"] {
            let executable = hows(how);
            let all = together((0..16).map(|_| number(&executable)));
            assert_eq!(all, vec![Ok(0); 16], "{how}");
        }
        let executable = hows("mutex");
        let mut all: Vec<i64> = together((0..20).map(|_| number(&executable)))
            .into_iter()
            .map(Result::unwrap)
            .collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{all:?}");
    }
}

/// Blocks its thread until as many do as there are.
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

/// How many wake themselves beside each other.
const YIELDING: usize = 16;

/// Wakes itself, again and again, and notes who is polled in between, from when all have begun.
#[xla_ffi::handler]
async fn yields(mut y: Out<i64, 0>) {
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    static POLLS: AtomicUsize = AtomicUsize::new(0);
    BEGUN.fetch_add(1, Ordering::Relaxed);
    let mut left = 10_000;
    std::future::poll_fn(|context| {
        if BEGUN.load(Ordering::Relaxed) == YIELDING {
            POLLS.fetch_add(1, Ordering::Relaxed);
            left -= 1;
        }
        if left == 0 {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    y.fill(POLLS.load(Ordering::Relaxed) as i64);
}

/// Many that wake themselves while they are polled: the first to be done sees that the others had their
/// turns.
#[test]
fn bodies_that_wake_themselves_take_turns() {
    let executable = load::<yields>(Revision::R10, "{}");
    let all = together((0..YIELDING).map(|_| number(&executable)));
    let first = all.into_iter().map(Result::unwrap).min().unwrap();
    assert!(first > 30_000, "{first} polls when the first was done");
}

type Sender = futures::channel::oneshot::Sender<i64>;
type Receiver = futures::channel::oneshot::Receiver<i64>;

static CHAIN: Mutex<Vec<(Receiver, Option<Sender>)>> = Mutex::new(Vec::new());

/// Waits for the link before it, wakes the one behind it.
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
    // The chain begins when all wait, on a thread with a small stack.
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

/// Panics when it is destroyed.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor of the body's");
    }
}

/// Takes a lock when it is destroyed.
struct Locks;

static HELD: Mutex<()> = Mutex::new(());

impl Drop for Locks {
    fn drop(&mut self) {
        drop(HELD.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Gives its waker to somebody who drops it.
struct Abandoned;

impl Future for Abandoned {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let waker = context.waker().clone();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(5));
            let _held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
            drop(waker);
        });
        Poll::Pending
    }
}

#[xla_ffi::handler]
async fn lost(how: &str, mut y: Out<i64, 0>) {
    let _locks = Locks;
    let _bomb = how.ends_with("bomb").then(|| Bomb);
    if how.starts_with("at once") {
        std::future::pending::<()>().await;
    } else if how.starts_with("later") {
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
                    "lost: nobody can wake its future any more: all wakers were dropped while it \
                     was pending"
                        .to_owned()
                ),
                "{revision} {when}"
            );
            assert!(start.elapsed() < LIMIT / 2);
            // Its destructor's panic is the error, and ends nothing.
            let text = run::<lost>(revision, &format!("{when} bomb")).unwrap_err();
            let expected =
                "lost panicked: a destructor of the body's, at ffi/tests/async_crates.rs:";
            assert!(text.starts_with(expected), "{revision} {when}: {text}");
        }
    }
}

#[xla_ffi::handler]
async fn throws(how: &str, y: Out<i64, 0>) {
    let _y = y;
    if how == "later" {
        TimerFuture::ms(1).await;
    }
    std::panic::panic_any(Bomb);
}

/// What a body throws may panic in its turn when it is destroyed.
#[test]
fn a_panic_of_a_body_is_an_error_whatever_it_throws() {
    for revision in REVISIONS {
        for how in ["", "later"] {
            let executable = load::<throws>(revision, &format!("{{how = \"{how}\"}}"));
            let error = number(&executable).run().map(drop).unwrap_err();
            assert_eq!(error.code(), Code::Internal);
            let text = error.message();
            let expected =
                "throws panicked: a value that is not text, at ffi/tests/async_crates.rs:";
            assert!(text.starts_with(expected), "{text}");
        }
    }
}

#[xla_ffi::handler]
fn loops(pool: ThreadPool, how: &str) {
    let caller = thread::current().id();
    let together = Barrier::new(2);
    pool.for_each_range(2, 1, |_| {
        together.wait();
        if (thread::current().id() == caller) == (how == "helper first") {
            thread::sleep(Duration::from_millis(2));
        }
        std::panic::panic_any(Bomb);
    });
}

/// A share of a gathered call.
struct Share;

impl Drop for Share {
    fn drop(&mut self) {
        panic!("the destructor of a share");
    }
}

/// The last part is dropped by a thread that unwinds, and with it the share of the first.
#[xla_ffi::handler]
fn shares(later: Later) -> Result<xla_ffi::Future> {
    let (promise, future) = later.promise(());
    let mut parts = promise.gather(2, |(), _: Vec<Share>| Ok(()))?;
    let last = parts.pop();
    for part in parts {
        part.complete(Ok(Share));
    }
    thread::spawn(move || {
        let _last = last;
        panic!("before the part is complete");
    });
    Ok(future)
}

#[test]
fn destructors_of_shares_may_panic() {
    for revision in REVISIONS {
        let error = load::<shares>(revision, "{}").call().run().map(drop);
        let expected = "the handler dropped a part of its promise without completing it";
        assert_eq!(error.unwrap_err().message(), expected);
    }
}

#[xla_ffi::handler]
fn tasks(pool: ThreadPool) -> Result<()> {
    let bomb = Bomb;
    pool.spawn(move || drop(bomb))?;
    let bomb = Bomb;
    pool.spawn(move || {
        let _bomb = &bomb;
    })?;
    pool.spawn(|| std::panic::panic_any(Bomb))
}

/// Bodies of loops that all throw, on the caller's thread and on the pool's; tasks that throw, or that
/// are destroyed with a panic.
#[test]
fn destructors_may_panic_on_the_thread_pool() {
    for revision in [Revision::R1, Revision::R10] {
        for how in ["caller first", "helper first"] {
            let executable = load::<loops>(revision, &format!("{{how = \"{how}\"}}"));
            for _ in 0..20 {
                let error = executable.call().run().map(drop).unwrap_err();
                assert!(error.message().starts_with("loops panicked: "), "{error}");
                assert_eq!(error.findings(), []);
            }
        }
        let executable = load::<tasks>(revision, "{}");
        for _ in 0..20 {
            executable.call().run().unwrap();
        }
    }
}
