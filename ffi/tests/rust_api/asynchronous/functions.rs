//! Tests handlers that are `async fn`.

use super::f32s;
use crate::{array, call, failed, first, load, on, ret, shape};
use std::future::Future as StdFuture;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use xla_ffi::prelude::*;
use xla_ffi_runtime::{Call, DType, ErrorCode, Revision, Runtime};

/// A future that a different thread wakes `times` times.
struct Elsewhere {
    times: usize,
    twice: bool,
}

impl StdFuture for Elsewhere {
    type Output = thread::ThreadId;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<thread::ThreadId> {
        if self.times == 0 {
            return Poll::Ready(thread::current().id());
        }
        self.times -= 1;
        let waker = context.waker().clone();
        if self.twice {
            // Wake the future while it runs, and then from a different thread.
            waker.wake_by_ref();
        }
        thread::spawn(move || waker.wake());
        Poll::Pending
    }
}

/// Attributes that borrow from the call frame.
#[derive(xla_ffi::Attribute)]
struct Options<'a> {
    name: &'a str,
    list: &'a [i64],
    inner: Dictionary<'a>,
}

#[xla_ffi::handler(shape = "n m -> n m")]
async fn scaled(
    x: Buffer<f32, 2>,
    mut y: Out<f32, 2>,
    factor: f32,
    options: Option<Options<'_>>,
    times: i64,
    #[attr(default = "-")] note: &str,
    run: Option<RunId>,
) -> Result<()> {
    let elsewhere = Elsewhere {
        times: times as usize,
        twice: times % 2 == 1,
    };
    elsewhere.await;
    let [n, m] = x.shape();
    assert_eq!((n, m, y.dims()), (1, 2, &[1, 2][..]));
    if let Some(options) = options {
        assert_eq!(
            (options.name, options.list, note),
            ("näme", &[1, 2, 3][..], "-")
        );
        assert_eq!(options.inner.get::<f64>("deep")?, 0.5);
    } else {
        assert_eq!(note, "a host without dictionaries");
    }
    assert!(run.is_none_or(|run| run.get() == 4));
    Elsewhere {
        times: 1,
        twice: false,
    }
    .await;
    y.write_with(|i| x[i] * factor);
    Ok(())
}

fn scaled_on(revision: Revision, times: i64) -> Call {
    let options = if revision < Revision::R2 {
        "note = \"a host without dictionaries\""
    } else {
        "options = {name = \"näme\", list = array<i64: 1, 2, 3>, inner = {deep = 0.5}}"
    };
    let attrs = format!("{{factor = 2.0 : f32, times = {times} : i64, {options}}}");
    on::<scaled>(revision, &attrs)
        .run_id(4)
        .arg(array(&[1, 2], &[1.0_f32, 2.0]))
        .ret(f32s(&[1, 2]))
}

#[test]
fn async_functions_outlive_the_call() {
    for revision in Revision::ALL {
        for times in 0..4 {
            assert_eq!(
                first::<f32>(scaled_on(revision, times)),
                [2.0, 4.0],
                "{revision}"
            );
        }
        let without = scaled_on(revision, 1).without_thread_pool();
        assert_eq!(first::<f32>(without), [2.0, 4.0], "{revision}");
    }
    let wrong = scaled_on(Revision::NEWEST, 0).ret(f32s(&[1]));
    let (code, text) = failed(wrong);
    assert_eq!(code, ErrorCode::InvalidArgument);
    assert_eq!(text, "scaled (execute): expected 1 result (`y`), got 2");
}

static WAKERS: Mutex<Vec<Waker>> = Mutex::new(Vec::new());
static ENDED: AtomicBool = AtomicBool::new(false);

/// A guard that records when it is dropped.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        thread::sleep(Duration::from_millis(5));
        ENDED.store(true, Ordering::Release);
    }
}

#[xla_ffi::handler]
async fn ends(how: &str, y: Out<f32, 1>) -> Result<()> {
    let ending = Ending;
    let mut y = y;
    match how {
        "error" => return Err(Error::unavailable("async")),
        "panic" => panic!("in an async fn"),
        "destructor" => {
            struct Bomb;
            impl Drop for Bomb {
                fn drop(&mut self) {
                    panic!("a destructor");
                }
            }
            let _bomb = Bomb;
            Elsewhere {
                times: 1,
                twice: false,
            }
            .await;
        }
        "lost" => {
            // The body does not keep its waker, so the task is dropped together with the promise.
            std::future::pending::<()>().await;
        }
        "kept" => {
            std::future::poll_fn(|context| {
                let mut wakers = WAKERS.lock().unwrap();
                wakers.push(context.waker().clone());
                if wakers.len() == 2 {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
        _ => {}
    }
    y.fill(1.0);
    drop(ending);
    Ok(())
}

#[test]
fn async_functions_end_before_their_call_does() {
    for revision in [Revision::R0, Revision::R2, Revision::R10] {
        let run = |how: &str| {
            ENDED.store(false, Ordering::Release);
            let call = on::<ends>(revision, &format!("{{how = \"{how}\"}}")).ret(f32s(&[1]));
            let result = call.run();
            assert!(ENDED.load(Ordering::Acquire), "{revision} {how}");
            result.map_err(|error| error.message().to_owned()).map(drop)
        };
        assert_eq!(run(""), Ok(()));
        assert_eq!(run("error"), Err("ends (execute): async".to_owned()));
        let text = run("panic").unwrap_err();
        assert!(
            text.starts_with("ends (execute): panicked: in an async fn, at ffi/tests/"),
            "{text}"
        );
        let text = run("destructor").unwrap_err();
        assert!(
            text.starts_with("ends (execute): panicked: a destructor, at ffi/tests/"),
            "{text}"
        );
        assert_eq!(
            run("lost"),
            Err(
                "ends (execute): its future can never be woken, because all wakers were dropped while it was pending"
                    .to_owned()
            )
        );
        assert_eq!(run("kept"), Ok(()));
        // Waking a completed task does nothing.
        WAKERS.lock().unwrap().drain(..).for_each(Waker::wake);
    }
}

struct Session {
    uses: Arc<AtomicUsize>,
}

static USES: AtomicUsize = AtomicUsize::new(0);

#[xla_ffi::stateful(name = "session")]
impl Session {
    fn instantiate() -> Self {
        Self {
            uses: Arc::default(),
        }
    }

    async fn execute(&self, mut y: Out<i64, 0>) -> Result<()> {
        Elsewhere {
            times: 2,
            twice: true,
        }
        .await;
        USES.fetch_add(1, Ordering::Relaxed);
        y.fill(self.uses.fetch_add(1, Ordering::Relaxed) as i64);
        Ok(())
    }
}

#[test]
fn async_stages_keep_their_state() {
    let executable = load::<Session>(&Runtime::default(), "{}").unwrap();
    for expected in 0..5 {
        let outcome = executable.call().ret(shape(DType::S64, &[])).run().unwrap();
        assert_eq!(ret::<i64>(&outcome, 0), [expected]);
    }
    assert_eq!(USES.load(Ordering::Relaxed), 5);
}

xla_ffi::library! { name = "asynchronous_functions"; ends, scaled, Session }

static GUARDS: AtomicUsize = AtomicUsize::new(0);

/// A guard that counts its live instances.
#[derive(xla_ffi::Bind)]
#[bind(from = i64)]
struct Guard;

impl From<i64> for Guard {
    fn from(_: i64) -> Self {
        GUARDS.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        GUARDS.fetch_sub(1, Ordering::SeqCst);
    }
}

#[xla_ffi::handler]
async fn guarded(_guard: Guard, mut y: Out<u64, 0>) {
    Elsewhere {
        times: 1,
        twice: false,
    }
    .await;
    y.fill(GUARDS.load(Ordering::SeqCst) as u64);
}

#[test]
fn parameters_live_until_the_body_ends() {
    let run = call::<guarded>("{guard = 1 : i64}").ret(shape(DType::U64, &[]));
    assert_eq!(first::<u64>(run), [1]);
    assert_eq!(GUARDS.load(Ordering::SeqCst), 0);
}
