//! A program that links its handlers and calls them from threads, without XLA. See `docs/embedding.md`.

use std::time::Duration;
use xla_ffi::embed::programs::{Builder, CustomCall};
use xla_ffi::{Cancellation, prelude::*};
use xla_ffi::{
    ErrorCode,
    embed::{
        self, Attributes, Canceller, DType, Runtime, Shape, Tensor,
        value::{Tree, ValueShape},
    },
};

/// An object of the program for its handlers.
#[derive(xla_ffi::HostType)]
struct Factor(f32);

/// y = factor * x
#[xla_ffi::handler(shape = "n -> n")]
fn scale(x: Buffer<f32>, mut y: Out<f32>, factor: UserData<Factor>) -> Result<()> {
    y.write_with(|i| factor.0 * x[i]);
    Ok(())
}
embed::register_handler!("my_server.scale", "Host", scale);

/// y = x + 1
#[xla_ffi::handler(shape = "n -> n")]
fn next(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    y.write_with(|i| x[i] + 1.0);
    Ok(())
}
embed::register_handler!("my_server.next", "Host", next);

/// A handler that runs until its result is no longer wanted.
#[xla_ffi::handler]
fn search(cancelled: Cancellation) -> Result<()> {
    loop {
        cancelled.check()?;
        std::thread::sleep(Duration::from_millis(1));
    }
}
embed::register_handler!("my_server.search", "Host", search);

const THREADS: usize = 4;
const CALLS: usize = 25_000;

/// Two calls, one after the other: y = (x + 1) + 1.
fn program(runtime: &Runtime) -> Result<(), xla_ffi::Error> {
    let shape = ValueShape::array(DType::F32, [2])?;
    let mut b = Builder::new("twice");
    let x = b.parameter(0, shape.clone(), "x");
    let one = b.custom_call(CustomCall::ffi("my_server.next", [x], shape.clone()));
    let two = b.custom_call(CustomCall::ffi("my_server.next", [one], shape));
    let compiled = b.build(two)?.compile(runtime)?;
    let y = compiled.run([Tree::Leaf(Tensor::from_vec([2], vec![1.0_f32, 2.0])?)])?;
    let y = y.leaf().and_then(Tensor::as_slice::<f32>);
    assert_eq!(y, Some(&[3.0, 4.0][..]));
    Ok(())
}

fn main() -> Result<(), xla_ffi::Error> {
    // The number of calls per thread, optionally from the command line.
    let calls = std::env::args().nth(1).map(|calls| calls.parse());
    let calls: usize = calls.transpose().expect("a number").unwrap_or(CALLS);

    // Register: the runtime asks the handlers for their requirements, like a real XLA.
    let runtime = Runtime::default();
    runtime.register_static()?;

    // Prepare: shapes once, with state, attributes and user data.
    let executable = runtime
        .find("my_server.scale", "Host")?
        .instantiate(&Attributes::new())?;
    let operands = || -> Result<embed::Call, xla_ffi::Error> {
        let x = Tensor::from_vec([2], vec![1.0_f32, 2.0])?;
        Ok(executable.call().arg(x).ret(Shape::new(DType::F32, [2])?))
    };

    // Errors name the handler, the parameter and the remedy.
    let error = operands()?.run().expect_err("there is no factor yet");
    println!("as expected: {error}");

    // User data: any thread's calls see the object, which is dropped with the last of them.
    let data = embed::UserData::new(&runtime).with(Factor(3.0))?;
    let prepared = operands()?.user_data(data.clone()).prepare()?;

    // From threads: each has a clone, with results of its own.
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let mut own = prepared.try_clone().expect("memory for a clone");
            scope.spawn(move || {
                for _ in 0..calls {
                    own.invoke().expect("it scales");
                }
                let y = own.into_rets().expect("it is done");
                assert_eq!(y[0].as_slice(), Some(&[3.0_f32, 6.0][..]));
            });
        }
    });

    // Different operands and a different context for each run, without preparing again.
    let mut call = prepared;
    for run in 0..3_u8 {
        let x = Tensor::from_vec([1], vec![f32::from(run)])?;
        call.settings()?
            .run_id(run.into())
            .time_limit(Some(Duration::from_secs(1)));
        call.set_operands([x], [Shape::new(DType::F32, [1])?])?;
        call.invoke()?;
        assert_eq!(call.ret_bytes(0)?, (3.0 * f32::from(run)).to_ne_bytes());
    }

    // A canceller: any thread may cancel a call whose result is no longer wanted.
    let search = runtime.find("my_server.search", "Host")?;
    let canceller = Canceller::new();
    let call = search.instantiate(&Attributes::new())?.call();
    let call = call.canceller(&canceller);
    let error = std::thread::scope(|scope| {
        let running = scope.spawn(|| call.run().map(|_| ()));
        std::thread::sleep(Duration::from_millis(20));
        canceller.cancel();
        running.join().expect("no panic")
    });
    assert_eq!(error.expect_err("cancelled").code(), ErrorCode::Cancelled);

    // Several calls, checked together and run together.
    program(&runtime)?;

    // Shutdown: afterwards no handler is running, and new calls are refused.
    runtime.shutdown(Duration::from_secs(5))?;
    let error = executable.call().run().expect_err("it is over");
    assert_eq!(error.code(), ErrorCode::Unavailable);

    println!("{} calls from {THREADS} threads", THREADS * calls);
    Ok(())
}
