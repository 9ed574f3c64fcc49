//! Tests that a crate that forbids unsafe code can use every feature.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unreachable_pub, unused, clippy::all)]

use std::sync::atomic::{AtomicI64, Ordering};
use xla_ffi::{Attribute, Bind, HostType, Initialize, Later, Prepare, prelude::*};

/// A matrix with as many rows as columns.
#[derive(Bind)]
#[bind(from = Buffer<'f, f32, 2>)]
pub struct Square<'f>(&'f [f32]);

impl<'f> TryFrom<Buffer<'f, f32, 2>> for Square<'f> {
    type Error = Error;

    fn try_from(from: Buffer<'f, f32, 2>) -> Result<Self> {
        let [n, m] = from.shape();
        xla_ffi::matching::dim_is("x", &[n, m], 1, n)?;
        Ok(Self(from.as_slice()))
    }
}

/// Options from a dictionary.
#[derive(Attribute)]
pub struct Options<'a> {
    name: &'a str,
    #[attr(default = 1)]
    times: i64,
}

/// An attribute with two possible values.
#[derive(Attribute)]
#[repr(i32)]
pub enum Mode {
    /// The mode whose integer is 1.
    Once = 1,
    /// The mode whose integer is 2.
    Twice = 2,
}

/// User data that holds a number.
#[derive(HostType)]
pub struct Store(i64);

/// A handler with every kind of parameter.
#[xla_ffi::handler(shape = "n n, ... -> ..., n n")]
#[allow(clippy::too_many_arguments, reason = "one of each kind")]
pub fn everything(
    x: Square,
    mut z: InOut<f32>,
    mut y: Out<f32>,
    options: Options<'_>,
    mode: Mode,
    #[attr(default = 1.0, narrow)] scale: f32,
    store: Option<UserData<Store>>,
    pool: Option<ThreadPool>,
) -> Result<()> {
    z.fill(scale);
    let times = options.times * mode as i64 + options.name.len() as i64;
    let times = times + store.map_or(0, |store| store.0);
    if let Some(pool) = pool {
        pool.for_each(3, |_| {});
    }
    y.write_with(|i| x.0[i] * times as f32);
    Ok(())
}

/// A handler that completes through a promise.
#[xla_ffi::handler]
pub fn later(x: Buffer<f32>, y: Out<f32>, later: Later) -> Result<()> {
    let promise = later.promise((x, y));
    std::thread::spawn(move || {
        promise.complete_with(|(x, mut y)| y.copy_from(&x).map(drop));
    });
    Ok(())
}

/// A handler that is an `async fn`.
#[xla_ffi::handler]
pub async fn asynchronous(x: Buffer<f32>, mut y: Out<f32>, name: &str) -> Result<()> {
    std::future::ready(name.len()).await;
    y.copy_from(&x)
}

/// The state of the prepare stage.
#[derive(HostType)]
pub struct Plan(i64);

/// A handler with state.
pub struct Counter(AtomicI64);

#[xla_ffi::stateful]
impl Counter {
    fn instantiate(start: i64) -> Self {
        Self(AtomicI64::new(start))
    }

    fn prepare(&self) -> Result<Plan> {
        Ok(Plan(1))
    }

    fn initialize(plan: State<Plan, Prepare>) -> Result<Plan> {
        Ok(Plan(plan.0))
    }

    fn execute(&self, plan: State<Plan, Initialize>, mut y: Out<i64, 0>) -> Result<()> {
        y.fill(self.0.fetch_add(plan.0, Ordering::Relaxed));
        Ok(())
    }
}

xla_ffi::library! { everything, later, asynchronous, Counter }

#[test]
fn a_crate_without_unsafe_code_has_every_macro() {
    assert_eq!(Mode::Once as i32 + Mode::Twice as i32, 3);
}
