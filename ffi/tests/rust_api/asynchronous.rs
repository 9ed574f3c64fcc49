//! Calls that complete later: promises, parts, `async fn`.

use crate::kit::{array, call, failed, first, load, on, ret, shape, vector};
use std::future::Future as StdFuture;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use xla_ffi::{Future, Later, prelude::*};
use xla_ffi_runtime::{Call, Code, DType, Revision, Runtime};

fn f32s(dims: &[i64]) -> xla_ffi_runtime::Shape {
    shape(DType::F32, dims)
}

#[xla_ffi::handler(shape = "n -> n")]
fn add_one(x: Buffer<f32, 1>, y: Out<f32, 1>, how: &str, later: Later) -> Result<Future> {
    let (mut promise, future) = later.promise((x, y));
    let (first, len) = promise.with(|(x, mut y)| {
        y.fill(0.0);
        (x[0], y.len())
    });
    assert_eq!(len, x.len());
    let work = move || {
        promise.complete_with(|(x, mut y)| {
            assert_eq!(x[0], first);
            y.write_iter(x.iter().map(|x| x + 1.0))?;
            Ok(())
        })
    };
    match how {
        "inline" => work(),
        "thread" => drop(thread::spawn(work)),
        _ => drop(thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            work();
        })),
    }
    Ok(future)
}

/// FutureSetAvailable, FutureSetAvailableFromThreadPool, AsyncHandler: on every revision, hosts
/// without futures included.
#[test]
fn promises_are_kept_inline_and_elsewhere() {
    for revision in Revision::ALL {
        for how in ["inline", "thread", "late"] {
            let call = on::<add_one>(revision, &format!("{{how = \"{how}\"}}"))
                .arg(vector(&[1.0_f32, 2.0]))
                .ret(f32s(&[2]));
            assert_eq!(first::<f32>(call), [2.0, 3.0], "{revision} {how}");
        }
    }
}

#[xla_ffi::handler]
fn fail_later(later: Later, how: &str) -> Result<Future> {
    let (promise, future) = later.promise(());
    match how {
        "error" => promise.complete(Err(Error::unavailable("not today"))),
        "panic" => promise.complete_with(|()| panic!("in the promise")),
        "dropped" => drop(promise),
        "thread" => drop(thread::spawn(move || drop(promise))),
        "unwound" => drop(thread::spawn(move || {
            let _promise = promise;
            panic!("before it is kept");
        })),
        _ => promise.complete(Ok(())),
    }
    Ok(future)
}

/// FutureSetError, FutureSetErrorFromThreadPool; a dropped promise is an error, not a hang.
#[test]
fn promises_are_broken_with_an_error() {
    for revision in Revision::ALL {
        let run = |how: &str| failed(on::<fail_later>(revision, &format!("{{how = \"{how}\"}}")));
        let unavailable = if revision < Revision::R2 {
            Code::Internal
        } else {
            Code::Unavailable
        };
        assert_eq!(run("error"), (unavailable, "not today".to_owned()));
        let dropped = "the handler dropped its promise without completing it";
        for how in ["dropped", "thread", "unwound"] {
            assert_eq!(
                run(how),
                (Code::Internal, dropped.to_owned()),
                "{revision} {how}"
            );
        }
        let (code, text) = run("panic");
        assert_eq!(code, Code::Internal);
        let expected =
            "the handler panicked: in the promise, at ffi/tests/rust_api/asynchronous.rs:";
        assert!(text.starts_with(expected), "{text}");
        assert!(on::<fail_later>(revision, "{how = \"\"}").run().is_ok());
    }
}

static SLOW_DONE: AtomicUsize = AtomicUsize::new(0);

/// Makes a promise and then does not return its future.
#[xla_ffi::handler]
fn careless(y: Out<f32, 1>, how: &str, later: Later) -> Result<()> {
    let (promise, future) = later.promise(y);
    let quick = how.ends_with("quick");
    let work = move || {
        promise.complete_with(|mut y| {
            y.fill(1.0);
            SLOW_DONE.fetch_add(1, Ordering::Release);
            Ok(())
        });
    };
    if quick {
        work();
    } else {
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            work();
        });
    }
    let _ = future;
    match how.split(' ').next() {
        Some("error") => Err(Error::not_found("on second thoughts")),
        Some("panic") => panic!("after the promise"),
        _ => Ok(()),
    }
}

/// A promise owns its operands until it is kept, whatever the handler returns meanwhile: the host
/// may not take their memory back.
#[test]
fn a_call_with_a_promise_is_pending_whatever_the_handler_returns() {
    for revision in Revision::ALL {
        for when in ["slow", "quick"] {
            let run = |how: &str| {
                let before = SLOW_DONE.load(Ordering::Acquire);
                let attrs = format!("{{how = \"{how} {when}\"}}");
                let result = on::<careless>(revision, &attrs).ret(f32s(&[2])).run();
                assert_eq!(
                    SLOW_DONE.load(Ordering::Acquire),
                    before + 1,
                    "{revision} {how}"
                );
                result
            };
            assert_eq!(ret::<f32>(&run("fine").unwrap(), 0), [1.0, 1.0]);
            let error = run("error").unwrap_err();
            assert_eq!(error.message(), "on second thoughts");
            assert_eq!(error.findings(), [], "{revision} {when}");
            let error = run("panic").unwrap_err();
            assert_eq!(error.code(), Code::Internal);
            assert!(
                error
                    .message()
                    .starts_with("careless panicked: after the promise")
            );
        }
    }
}

#[xla_ffi::handler]
fn in_parts(later: Later, parts: i64, how: &str) -> Result<Future> {
    let (promise, future) = later.promise(());
    let threads = how == "threads";
    for (index, part) in promise.count_down(parts as usize)?.into_iter().enumerate() {
        let outcome = match how {
            "error" if index % 2 == 1 => Err(Error::aborted(index)),
            _ => Ok(()),
        };
        if threads {
            thread::spawn(move || part.complete(outcome));
        } else if how == "dropped" && index == 1 {
            drop(part);
        } else {
            part.complete(outcome);
        }
    }
    Ok(future)
}

trait Aborted {
    fn aborted(part: usize) -> Error;
}

impl Aborted for Error {
    fn aborted(part: usize) -> Error {
        Error::new(ErrorCode::Aborted, format!("part {part}"))
    }
}

/// CountDownSuccess, CountDownError, CountDownSuccessFromThreadPool, CountDownErrorFromThreadPool.
#[test]
fn calls_in_parts() {
    let run = |parts: i64, how: &str| {
        call::<in_parts>(&format!("{{parts = {parts} : i64, how = \"{how}\"}}"))
    };
    assert!(run(1, "").run().is_ok());
    assert!(run(5, "").run().is_ok());
    assert!(run(20, "threads").run().is_ok());
    assert_eq!(
        failed(run(5, "error")),
        (Code::Aborted, "part 1".to_owned())
    );
    let (code, text) = failed(run(3, "dropped"));
    assert_eq!(code, Code::Internal);
    assert_eq!(
        text,
        "the handler dropped a part of its promise without completing it"
    );
    assert_eq!(
        failed(run(0, "")),
        (
            Code::InvalidArgument,
            "a call in no parts would never complete".to_owned()
        )
    );
}

/// Each part writes the number of the row that it has, times the first element of `x`.
#[xla_ffi::handler]
#[expect(clippy::too_many_arguments, reason = "an operand of each kind")]
fn divided(
    x: AnyBuffer,
    factor: Buffer<i32, 1>,
    y: Out<i32, 2>,
    any: AnyOut,
    z: InOut<i32>,
    parts: i64,
    how: &str,
    later: Later,
) -> Result<Future> {
    let (promise, future) = later.promise((x, factor, y, any, z));
    for mut part in promise.count_down(parts as usize)? {
        let (rows, index) = (part.rows(), part.index());
        assert_eq!(part.with(|(_, _, y, _, _)| y.shape()), [rows.len(), 2]);
        let how = how.to_owned();
        thread::spawn(move || {
            if how == "dropped" && index == 1 {
                return;
            }
            part.complete_with(|(x, factor, mut y, mut any, mut z)| {
                assert_eq!((x.bytes().len(), factor.len()), (8, 2));
                if index == 2 {
                    match how.as_str() {
                        "error" => return Err(Error::unavailable("part 2")),
                        "panic" => panic!("in part 2"),
                        _ => {}
                    }
                }
                for (row, y) in rows.clone().zip(y.rows_uninit()) {
                    for y in y {
                        y.write(row as i32 * factor[0]);
                    }
                }
                assert_eq!(
                    (any.dims(), any.byte_size()),
                    (&[rows.len()][..], 8 * rows.len())
                );
                any.fill_bytes(index as u8 + 1);
                z.iter_mut().for_each(|z| *z += 10 * index as i32);
                Ok(())
            });
        });
    }
    Ok(future)
}

fn run_divided(rows: i64, parts: i64, how: &str) -> Call {
    let z: Vec<i32> = (0..3 * rows).map(|i| i as i32).collect();
    call::<divided>(&format!("{{parts = {parts} : i64, how = \"{how}\"}}"))
        .arg(array(&[2], &[1_i32, 2]))
        .arg(vector(&[7_i32, 0]))
        .arg(array(&[rows, 3], &z))
        .ret(shape(DType::S32, &[rows, 2]))
        .ret(shape(DType::F64, &[rows]))
        .ret_alias(2)
}

/// Arguments are shared, results divided: each part writes its own rows, and all rows are written.
#[test]
fn parts_own_rows_of_the_results() {
    for (rows, parts) in [(5_i64, 2_i64), (6, 3), (2, 5), (0, 3), (7, 7), (4, 1)] {
        let outcome = run_divided(rows, parts, "").run().unwrap();
        // The part of each row: the first ones have one row more.
        let (each, more) = (rows / parts, rows % parts);
        let sizes = (0..parts).map(|part| each + i64::from(part < more));
        let owners: Vec<i64> = sizes
            .zip(0..)
            .flat_map(|(size, part)| (0..size).map(move |_| part))
            .collect();
        let twice: Vec<i32> = (0..rows as i32).flat_map(|row| [7 * row; 2]).collect();
        assert_eq!(ret::<i32>(&outcome, 0), twice, "{rows} {parts}");
        let bytes: Vec<u8> = owners
            .iter()
            .flat_map(|part| [*part as u8 + 1; 8])
            .collect();
        assert_eq!(outcome.rets[1].bytes(), bytes);
        let z: Vec<i32> = (0..3 * rows as usize)
            .map(|i| i as i32 + 10 * owners[i / 3] as i32)
            .collect();
        assert_eq!(ret::<i32>(&outcome, 2), z);
    }
}

#[test]
fn a_part_that_fails_fails_the_call() {
    let dropped = "the handler dropped a part of its promise without completing it";
    assert_eq!(
        failed(run_divided(6, 3, "error")),
        (Code::Unavailable, "part 2".to_owned())
    );
    assert_eq!(
        failed(run_divided(6, 3, "dropped")),
        (Code::Internal, dropped.to_owned())
    );
    let (code, text) = failed(run_divided(6, 3, "panic"));
    assert_eq!(code, Code::Internal);
    assert!(
        text.starts_with("the handler panicked: in part 2, at "),
        "{text}"
    );
}

/// An operand of one's own that panics when it is destroyed whole; its pieces take their time.
struct Whole {
    piece: bool,
}

static PIECES_GONE: AtomicUsize = AtomicUsize::new(0);

impl Drop for Whole {
    fn drop(&mut self) {
        if self.piece {
            thread::sleep(Duration::from_millis(20));
            PIECES_GONE.fetch_add(1, Ordering::Release);
        } else {
            panic!("an operand's destructor");
        }
    }
}

impl xla_ffi::Kept for Whole {
    type At<'a> = ();

    fn at(&mut self) {}
}

// SAFETY: nothing is reached.
unsafe impl xla_ffi::Detach for Whole {
    type Kept = Self;

    unsafe fn detach(self) -> Self {
        self
    }
}

// SAFETY: as above.
unsafe impl xla_ffi::Divide for Whole {
    type Shared = ();

    fn rows(&self) -> Result<Option<usize>> {
        Ok(None)
    }

    unsafe fn piece(&self, _rows: std::ops::Range<usize>) -> Result<Self> {
        Ok(Self { piece: true })
    }

    unsafe fn shared(&self) {}
}

#[xla_ffi::handler]
fn unwinds(later: Later, parts: i64) -> Result<Future> {
    let (promise, future) = later.promise(Whole { piece: false });
    thread::spawn(move || {
        drop(promise.count_down(parts as usize));
    });
    Ok(future)
}

/// Operands go before their call is completed, also where a destructor unwinds.
#[test]
fn a_call_ends_after_its_pieces_have_gone() {
    for revision in Revision::ALL {
        PIECES_GONE.store(0, Ordering::Release);
        let call = on::<unwinds>(revision, "{parts = 2 : i64}");
        let (code, _) = failed(call);
        assert_eq!(code, Code::Internal);
        assert_eq!(PIECES_GONE.load(Ordering::Acquire), 2, "{revision}");
    }
}

/// Results that cannot be divided; the handler does not even say so.
#[xla_ffi::handler]
fn indivisible(a: AnyOut, b: AnyOut, later: Later) -> Result<Future> {
    let (promise, future) = later.promise((a, b));
    let _ = promise.count_down(2);
    Ok(future)
}

#[test]
fn what_cannot_be_divided_is_told() {
    let run = |a: xla_ffi_runtime::Shape, b| {
        let (code, text) = failed(call::<indivisible>("{}").ret(a).ret(b));
        assert_eq!(code, Code::InvalidArgument);
        text
    };
    assert_eq!(
        run(f32s(&[4]), f32s(&[])),
        "a result that is a scalar cannot be divided into parts: gather their shares"
    );
    assert_eq!(
        run(f32s(&[4]), f32s(&[3, 4])),
        "results of 4 and of 3 rows cannot be divided alike: gather their shares"
    );
    assert_eq!(
        run(f32s(&[2]), shape(DType::S4, &[2, 3])),
        "a result of S4 cannot be divided here: row 1 does not begin at a byte"
    );
}

/// The sum of `x`, each part's share being that of its chunk; the largest share beside it.
#[xla_ffi::handler]
fn gathered(
    x: Buffer<i64, 1>,
    sum: Out<i64, 0>,
    largest: Out<i64>,
    parts: i64,
    how: &str,
    later: Later,
) -> Result<Future> {
    let parts = parts as usize;
    let fails = how == "finish";
    let (promise, future) = later.promise((x, (sum, largest)));
    let shares = promise.gather(
        parts,
        move |(x, (mut sum, mut largest)), shares: Vec<i64>| {
            assert_eq!(shares.len(), parts);
            if fails {
                return Err(Error::data_loss(x.len()));
            }
            sum.fill(shares.iter().sum());
            largest.fill(shares.iter().copied().max().unwrap_or(0));
            Ok(())
        },
    )?;
    for part in shares {
        let how = how.to_owned();
        thread::spawn(move || {
            let index = part.index();
            assert_eq!(part.rows(), index..index + 1);
            match (how.as_str(), index) {
                ("dropped", 0) => drop(part),
                ("error", 0) => part.complete(Err(Error::not_found("share 0"))),
                _ => part.complete_with(|(x, ((), ()))| {
                    let chunk = x.len().div_ceil(parts).max(1);
                    Ok(x.chunks(chunk).nth(index).unwrap_or_default().iter().sum())
                }),
            }
        });
    }
    Ok(future)
}

trait DataLoss {
    fn data_loss(len: usize) -> Error;
}

impl DataLoss for Error {
    fn data_loss(len: usize) -> Error {
        Error::new(ErrorCode::DataLoss, format!("of {len}"))
    }
}

#[test]
fn shares_are_gathered_at_the_end() {
    let run = |parts: i64, how: &str| {
        call::<gathered>(&format!("{{parts = {parts} : i64, how = \"{how}\"}}"))
            .arg(vector(&[1_i64, 2, 3, 4, 5]))
            .ret(shape(DType::S64, &[]))
            .ret(shape(DType::S64, &[2]))
    };
    for (parts, largest) in [(1, 15), (2, 9), (5, 5), (8, 5)] {
        let outcome = run(parts, "").run().unwrap();
        assert_eq!(ret::<i64>(&outcome, 0), [15]);
        assert_eq!(ret::<i64>(&outcome, 1), [largest; 2]);
    }
    assert_eq!(
        failed(run(3, "finish")),
        (Code::DataLoss, "of 5".to_owned())
    );
    assert_eq!(
        failed(run(3, "error")),
        (Code::NotFound, "share 0".to_owned())
    );
    let (code, text) = failed(run(3, "dropped"));
    assert_eq!(code, Code::Internal);
    assert!(text.contains("dropped a part of its promise"), "{text}");
    let (code, text) = failed(run(0, ""));
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(text, "a call in no parts would never complete");
}

#[xla_ffi::handler]
fn untyped(x: AnyBuffer, y: AnyOut, z: InOut<i32, 1>, later: Later) -> Result<Future> {
    let (promise, future) = later.promise((x, y, z));
    thread::spawn(move || {
        promise.complete_with(|(x, mut y, mut z)| {
            assert_eq!(x.dims(), [2, 1]);
            y.copy_from_bytes(x.bytes())?;
            z[0] += 1;
            Ok(())
        });
    });
    Ok(future)
}

#[test]
fn promises_of_operands_of_any_kind() {
    let outcome = call::<untyped>("{}")
        .arg(array(&[2, 1], &[1.0_f64, 2.0]))
        .arg(vector(&[1_i32]))
        .ret(shape(DType::F64, &[2]))
        .ret_alias(1)
        .run()
        .unwrap();
    assert_eq!(ret::<f64>(&outcome, 0), [1.0, 2.0]);
    assert_eq!(ret::<i32>(&outcome, 1), [2]);
}

/// Many futures at once, completed on many threads while their calls return (FutureRace).
#[test]
fn completions_race_with_returns() {
    let runtime = Runtime::default();
    let executable = load::<add_one>(&runtime, "{how = \"thread\"}").unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let call = executable.call().arg(vector(&[1.0_f32])).ret(f32s(&[1]));
                let mut call = call.prepare().unwrap();
                for _ in 0..200 {
                    call.invoke().unwrap();
                }
                assert_eq!(call.ret_bytes(0).unwrap(), 2.0_f32.to_ne_bytes());
            });
        }
    });
}

/// A future that another thread wakes, `times` times.
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
            // Woken while it runs, and again from elsewhere.
            waker.wake_by_ref();
        }
        thread::spawn(move || waker.wake());
        Poll::Pending
    }
}

/// Takes what ends with the call: dimensions, names, strings, arrays, dictionaries, state.
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
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(text, "scaled (execute): expected 1 result (y), got 2");
}

static WAKERS: Mutex<Vec<Waker>> = Mutex::new(Vec::new());
static ENDED: AtomicBool = AtomicBool::new(false);

/// Says when it has gone.
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
            // Nobody keeps the waker: the task goes, and with it the promise.
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
        assert_eq!(run("error"), Err("async".to_owned()));
        let text = run("panic").unwrap_err();
        assert!(
            text.starts_with("ends panicked: in an async fn, at ffi/tests/"),
            "{text}"
        );
        let text = run("destructor").unwrap_err();
        assert!(
            text.starts_with("ends panicked: a destructor, at ffi/tests/"),
            "{text}"
        );
        assert_eq!(
            run("lost"),
            Err(
                "ends: nobody can wake its future any more: all wakers were dropped while it was \
                 pending"
                    .to_owned()
            )
        );
        assert_eq!(run("kept"), Ok(()));
        // Waking what is done does nothing.
        WAKERS.lock().unwrap().drain(..).for_each(Waker::wake);
    }
}

#[xla_ffi::handler]
async fn nothing(mut y: Out<i64, 0>) {
    Elsewhere {
        times: 1,
        twice: false,
    }
    .await;
    y.fill(3);
}

#[derive(Debug, thiserror::Error)]
#[error("my own")]
struct Mine;

impl From<Mine> for Error {
    fn from(mine: Mine) -> Self {
        Self::unavailable(mine.to_string())
    }
}

#[xla_ffi::handler]
async fn own_error(_y: Out<i64, 0>) -> Result<(), Mine> {
    Err(Mine)
}

#[xla_ffi::handler]
async fn status() -> Result<(), xla_ffi::internal::Status> {
    Err(xla_ffi::internal::Error::new(Code::DataLoss, "whole"))?
}

/// An `async fn` may return what any handler may, futures excepted.
#[test]
fn async_functions_return_what_others_do() {
    let scalar = shape(DType::S64, &[]);
    let outcome = first::<i64>(call::<nothing>("{}").ret(scalar.clone()));
    assert_eq!(outcome, [3]);
    let error = failed(call::<own_error>("{}").ret(scalar));
    assert_eq!(error, (Code::Unavailable, "my own".to_owned()));
    let error = failed(call::<status>("{}"));
    assert_eq!(error, (Code::DataLoss, "whole".to_owned()));
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

xla_ffi::library! {
    name = "asynchronous";
    add_one, fail_later, careless, in_parts, divided, indivisible, gathered, untyped, scaled, ends, nothing, own_error, status, Session,
}
