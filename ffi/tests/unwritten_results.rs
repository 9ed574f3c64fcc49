//! Tests that debug builds report a handler that succeeds without accessing a result.
#![cfg(debug_assertions)]

use xla_ffi::prelude::*;
use xla_ffi::{
    AnyOut, Later, OneOfOut, PackedOut,
    element::U4,
    later::{KeptOut, Promise},
};
use xla_ffi::{
    Error as HostError,
    embed::{self, Call, DType, Runtime, Shape, Tensor},
};

/// The mode in which a handler does not write its result `z`. In every mode, the handler writes
/// `y`.
const FORGET: i32 = 0;
const WRITE: i32 = 1;
const LEAVE: i32 = 2;
const FAIL: i32 = 3;

fn failed(mode: i32) -> Result<()> {
    if mode == FAIL {
        return Err(Error::unavailable("on purpose"));
    }
    Ok(())
}

/// Writes the result `z` or leaves it unwritten, depending on `mode`.
fn write_or_leave(mode: i32, mut z: Out<f32>) {
    match mode {
        WRITE => {
            z.fill(1.0);
        }
        LEAVE => z.leave_unwritten(),
        _ => {}
    }
}

macro_rules! handlers {
    ($($name:ident [$($mut:tt)?] $z:ident: $ty:ty => $write:expr;)*) => {$(
        #[xla_ffi::handler]
        fn $name(mode: i32, mut y: Out<f32>, $($mut)? $z: $ty) -> Result<()> {
            y.fill(1.0);
            match mode {
                WRITE => $write,
                LEAVE => $z.leave_unwritten(),
                _ => {}
            }
            failed(mode)
        }
    )*};
}

handlers! {
    typed [mut] z: Out<f32> => { z.fill(1.0); };
    by_hand [mut] z: Out<f32, 1> => { let _handed_out = z.as_uninit(); };
    rows [mut] z: Out<f32, 1> => { let _handed_out = z.rows_uninit(); };
    writer [mut] z: Out<f32> => { let _handed_out = z.writer(); };
    any [mut] z: AnyOut => { z.fill_bytes(1); };
    any_typed [] z: AnyOut => { z.typed::<f32, 1>()?.fill(1.0); };
    one_of [] z: OneOfOut<(f32, f64)> => { z.typed::<f32>()?.fill(1.0); };
    packed [mut] z: PackedOut<U4> => { z.write_with(|_| 1); };
    remaining [mut] z: RemainingRets => { z.take::<f32, 1>(0)?.fill(1.0); };
}

#[xla_ffi::handler]
fn optional(mode: i32, mut y: Out<f32>, z: Option<Out<f32>>) -> Result<()> {
    y.fill(1.0);
    if let Some(z) = z {
        write_or_leave(mode, z);
    }
    failed(mode)
}

#[xla_ffi::handler]
async fn asynchronous(mode: i32, mut y: Out<f32>, z: Out<f32>) -> Result<()> {
    std::future::ready(()).await;
    y.fill(1.0);
    write_or_leave(mode, z);
    failed(mode)
}

type Job = Promise<(KeptOut<f32, ANY_RANK>, KeptOut<f32, ANY_RANK>)>;

fn work(mode: i32, job: Job) {
    job.complete_with(|(mut y, z)| {
        y.fill(1.0);
        write_or_leave(mode, z);
        failed(mode)
    });
}

/// A handler that completes on a different thread after it has returned.
#[xla_ffi::handler]
fn later(mode: i32, y: Out<f32>, z: Out<f32>, later: Later) -> Result<()> {
    let job = later.promise((y, z));
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        work(mode, job);
    });
    Ok(())
}

struct Stateful;

#[xla_ffi::stateful]
impl Stateful {
    fn instantiate() -> Self {
        Self
    }

    fn execute(&self, mode: i32, mut y: Out<f32>, z: Out<f32>) -> Result<()> {
        y.fill(1.0);
        write_or_leave(mode, z);
        failed(mode)
    }
}

fn run<H: xla_ffi::__private::Handler>(mode: i32, dtype: DType, n: i64) -> Result<(), HostError> {
    let shape = |dtype| Shape::new(dtype, [n]);
    let call = embed::call::<H>(&format!("{{mode = {mode} : i32}}"))?;
    call.ret(shape(DType::F32)?).ret(shape(dtype)?).run()?;
    Ok(())
}

fn check<H: xla_ffi::__private::Handler>(name: &str, dtype: DType) {
    for n in [1, 5] {
        let error = run::<H>(FORGET, dtype, n).expect_err(name);
        let said = error.message();
        assert_eq!(error.code().name(), "INTERNAL", "{name}");
        let result = if name == "remaining" { "z[0]" } else { "z" };
        let words = format!("{name} (execute): result `{result}` was never written: write it");
        assert!(said.starts_with(&words) && !said.contains("`y`"), "{said}");
        assert!(said.contains("leave_unwritten"), "{said}");
        for mode in [WRITE, LEAVE] {
            run::<H>(mode, dtype, n).unwrap_or_else(|error| panic!("{name} {mode}: {error}"));
        }
        // If the handler fails, the error of the handler is reported.
        assert_eq!(
            run::<H>(FAIL, dtype, n).unwrap_err().message(),
            format!("{name} (execute): on purpose"),
            "{name}"
        );
    }
    // An empty result need not be written.
    run::<H>(FORGET, dtype, 0).unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn every_kind_of_result_and_handler() {
    check::<typed>("typed", DType::F32);
    check::<by_hand>("by_hand", DType::F32);
    check::<rows>("rows", DType::F32);
    check::<writer>("writer", DType::F32);
    check::<any>("any", DType::F32);
    check::<any_typed>("any_typed", DType::F32);
    check::<one_of>("one_of", DType::F32);
    check::<remaining>("remaining", DType::F32);
    check::<packed>("packed", DType::U4);
    check::<optional>("optional", DType::F32);
    check::<asynchronous>("asynchronous", DType::F32);
    check::<later>("later", DType::F32);
    check::<Stateful>("Stateful", DType::F32);
}

#[test]
fn hosts_without_futures() {
    for mode in [FORGET, WRITE] {
        let handler =
            Runtime::new(xla_ffi::Revision::R1).handler("later", embed::bundle::<later>());
        let attributes = embed::Attributes::new().with("mode", mode);
        let call: Call = handler.unwrap().instantiate(&attributes).unwrap().call();
        let shape = || Shape::new(DType::F32, [3]).unwrap();
        let outcome = call.ret(shape()).ret(shape()).run();
        assert_eq!(outcome.is_ok(), mode == WRITE, "{outcome:?}");
    }
}

/// A handler whose result shares an argument's memory, and is therefore already written.
#[xla_ffi::handler]
fn kept(x: InOut<f32>) -> Result<()> {
    assert!(!x.is_empty());
    Ok(())
}

#[test]
fn an_alias_is_written_already() {
    let x = Tensor::from_slice([2], &[1.0_f32, 2.0]).unwrap();
    let call = embed::call::<kept>("{}").unwrap().arg(x);
    assert!(call.ret_alias(0).run().is_ok());
}
