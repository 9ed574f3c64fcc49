//! Tests calls that complete later: promises, parts and `async fn`. Also tests which types may be
//! sent to other threads.

mod functions;
mod parts;

use crate::{call, failed, first, load, on, ret, shape, vector};
use static_assertions::{assert_impl_all, assert_not_impl_any};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use xla_ffi::prelude::*;
use xla_ffi::{
    DeviceBuffer, DeviceOut, Later, OneOf, Packed,
    bind::{AttrValue, Host},
    device::AnyDeviceBuffer,
    element::S4,
    ext::{Extension, Pointer, RawCall},
    later::{KeptAnyBuffer, KeptAnyOut, KeptBuffer, KeptInOut, KeptOut, Part, Promise},
};
use xla_ffi_runtime::{DType, ErrorCode, Revision, Runtime};

fn f32s(dims: &[i64]) -> xla_ffi_runtime::Shape {
    shape(DType::F32, dims)
}

#[xla_ffi::handler(shape = "n -> n")]
fn add_one(x: Buffer<f32, 1>, y: Out<f32, 1>, how: &str, later: Later) -> Result<()> {
    let mut promise = later.promise((x, y));
    let (first, len) = promise.with(|(x, mut y)| {
        y.fill(0.0);
        (x[0], y.len())
    });
    assert_eq!(len, x.len());
    let work = move || {
        promise.complete_with(|(x, mut y)| {
            assert_eq!(x[0], first);
            y.write_iter(x.iter().map(|x| x + 1.0))
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
    Ok(())
}

/// Covers XLA's tests FutureSetAvailable, FutureSetAvailableFromThreadPool and AsyncHandler on
/// every revision, including hosts without futures.
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
fn fail_later(later: Later, how: &str) -> Result<()> {
    let promise = later.promise(());
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
    Ok(())
}

/// Covers XLA's tests FutureSetError and FutureSetErrorFromThreadPool. A dropped promise causes an
/// error and does not hang.
#[test]
fn promises_are_broken_with_an_error() {
    for revision in Revision::ALL {
        let run = |how: &str| failed(on::<fail_later>(revision, &format!("{{how = \"{how}\"}}")));
        let unavailable = if revision < Revision::R2 {
            ErrorCode::Internal
        } else {
            ErrorCode::Unavailable
        };
        assert_eq!(
            run("error"),
            (unavailable, "fail_later (execute): not today".to_owned())
        );
        let dropped = "fail_later (execute): the handler dropped its promise without completing it";
        for how in ["dropped", "thread", "unwound"] {
            assert_eq!(
                run(how),
                (ErrorCode::Internal, dropped.to_owned()),
                "{revision} {how}"
            );
        }
        let (code, text) = run("panic");
        assert_eq!(code, ErrorCode::Internal);
        let expected = "fail_later (execute): panicked: in the promise, at ffi/tests/rust_api/asynchronous/mod.rs:";
        assert!(text.starts_with(expected), "{text}");
        assert!(on::<fail_later>(revision, "{how = \"\"}").run().is_ok());
    }
}

/// Covers XLA's test FutureRace: many threads complete futures while the calls return.
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

xla_ffi::library! { name = "asynchronous_promises"; add_one, fail_later }

/// Operands that the promise of a different call lends.
type Lent = (KeptBuffer<f32, 1>, KeptOut<f32, 1>, KeptAnyOut);

/// The promise whose operands `borrows` tries to keep.
static LENDER: Mutex<Option<Promise<Lent>>> = Mutex::new(None);

#[xla_ffi::handler]
fn lends(x: Buffer<f32, 1>, y: Out<f32, 1>, z: AnyOut, later: Later) {
    let promise = later.promise((x, y, z));
    *LENDER.lock().unwrap() = Some(promise);
}

/// Passes an operand that the promise of a different call lends to a new promise.
#[xla_ffi::handler]
fn borrows(_own: Out<f32, 1>, how: &str, later: Later) -> Result<()> {
    let mut lender = LENDER.lock().unwrap().take().unwrap();
    let keep = |how: &str| {
        lender.with(|(x, y, z)| match how {
            "argument" => drop(later.promise(x)),
            "result" => drop(later.promise((y, ()))),
            _ => drop(later.promise(z)),
        })
    };
    let kept = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| keep(how)));
    lender.complete_with(|(x, mut y, mut z)| {
        y.copy_from(&x)?;
        z.fill_bytes(0);
        Ok(())
    });
    kept.map_err(|panic| Error::internal(*panic.downcast::<&str>().unwrap()))
}

/// Operands that a promise lends are only valid for the promise's call, so no other promise can
/// keep them.
#[test]
fn no_promise_keeps_the_operands_of_another_call() {
    for how in ["argument", "result", "untyped"] {
        let lender = call::<lends>("{}")
            .arg(vector(&[3.0_f32, 4.0]))
            .ret(f32s(&[2]))
            .ret(f32s(&[2]));
        let pending = std::thread::spawn(move || lender.run());
        while LENDER.lock().unwrap().is_none() {
            thread::yield_now();
        }
        let borrower = call::<borrows>(&format!("{{how = \"{how}\"}}")).ret(f32s(&[2]));
        let (code, text) = failed(borrower);
        let expected = "borrows (execute): a promise was given an operand of another call, which only the promise of that call may keep";
        assert_eq!(
            (code, text.as_str()),
            (ErrorCode::Internal, expected),
            "{how}"
        );
        let outcome = pending.join().unwrap().unwrap();
        assert_eq!(ret::<f32>(&outcome, 0), [3.0, 4.0]);
    }
}

struct Data;

assert_impl_all!(Buffer<'_, f32>: Send, Sync, Copy);
assert_impl_all!(Out<'_, f32>: Send, Sync);
assert_impl_all!(InOut<'_, f32>: Send, Sync);
assert_impl_all!(AnyBuffer<'_>: Send, Sync, Copy);
assert_impl_all!(AnyOut<'_>: Send, Sync);
assert_impl_all!(OneOf<'_, (f32, f64)>: Send, Sync, Copy);
assert_impl_all!(Packed<'_, S4>: Send, Sync, Copy);
assert_impl_all!(RemainingArgs<'_>: Send, Sync, Copy);
assert_impl_all!(RemainingRets<'_>: Send, Sync);
assert_impl_all!(Dictionary<'_>: Send, Sync, Copy);
assert_impl_all!(AttrValue<'_>: Send, Sync, Copy);
assert_impl_all!(UserData<'_, Data>: Send, Sync, Copy);
assert_impl_all!(State<'_, Data>: Send, Sync, Copy);
assert_impl_all!(DeviceBuffer<'_, f32>: Send, Sync);
assert_impl_all!(DeviceOut<'_, f32>: Send, Sync);
assert_impl_all!(AnyDeviceBuffer<'_>: Send, Sync);
assert_impl_all!(Host: Send, Sync, Copy);
assert_impl_all!(Error: Send, Sync, std::error::Error);
assert_impl_all!(RunId: Send, Sync, Copy);
assert_impl_all!(Promise<(KeptBuffer<f32, 1>, KeptOut<f32, 1>)>: Send);
assert_impl_all!(Promise<(KeptInOut<f32, 1>, KeptAnyBuffer)>: Send);
assert_impl_all!(Part: Send);
assert_impl_all!(Part<(KeptBuffer<f32, 1>, KeptOut<f32, 1>)>: Send);
assert_impl_all!(Part<KeptAnyBuffer, Vec<f32>>: Send);
assert_not_impl_any!(Part<KeptOut<f32, 1>>: Clone);

// Results are unique, so they cannot be copied.
assert_not_impl_any!(Out<'_, f32>: Copy, Clone);
assert_not_impl_any!(InOut<'_, f32>: Copy, Clone);
assert_not_impl_any!(AnyOut<'_>: Copy, Clone);
assert_not_impl_any!(RemainingRets<'_>: Copy, Clone);
assert_not_impl_any!(Promise<()>: Clone);
assert_not_impl_any!(Later<'_>: Copy, Clone, Send, Sync);
// Context parts that borrow from the call cannot leave the call's thread.
assert_not_impl_any!(ThreadPool<'_>: Send, Sync);
assert_not_impl_any!(Scratch<'_>: Send, Sync);
assert_not_impl_any!(Stream<'_>: Send, Sync);
assert_not_impl_any!(RawCall<'_>: Send, Sync);
assert_not_impl_any!(Extension<'_, 128>: Send, Sync);
assert_not_impl_any!(Pointer<u8>: Send, Sync);
