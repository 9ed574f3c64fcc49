//! The handlers of the benchmark in Rust.
//!
//! `c/decode.c` and `c/decode.cc` contain the same handlers. `c/header.c` and `c/scale.cc` contain the last five
//! handlers.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use xla_ffi::{Attribute, DeviceBuffer, DeviceOut, Later, Stream, prelude::*};

/// A number derived from the values that the last call decoded.
///
/// Because of this number, compilers cannot omit reading the operands. All languages must compute the same number.
static SINK: AtomicUsize = AtomicUsize::new(0);

/// Returns the number that the last call stored.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn bench_sink() -> usize {
    SINK.load(Ordering::Relaxed)
}

fn keep(seen: usize) -> Result<()> {
    SINK.store(seen, Ordering::Relaxed);
    Ok(())
}

trait Seen {
    fn seen(&mut self) -> usize;
}

impl Seen for Buffer<'_, f32, 2> {
    #[inline(always)]
    fn seen(&mut self) -> usize {
        self.as_ptr() as usize + self.len()
    }
}

impl Seen for Out<'_, f32, 2> {
    #[inline(always)]
    fn seen(&mut self) -> usize {
        self.as_uninit().as_ptr() as usize + self.len()
    }
}

impl Seen for i32 {
    #[inline(always)]
    fn seen(&mut self) -> usize {
        *self as usize
    }
}

/// Defines a handler whose parameters form one or two groups. The parameters of a group have the same type.
macro_rules! alike {
    ($name:ident $($ty:ty: $($param:ident)*),*) => {
        #[allow(clippy::too_many_arguments, reason = "a handler has as many parameters as its call has operands")]
        #[xla_ffi::handler]
        fn $name($($(mut $param: $ty),*),*) -> Result<()> {
            keep(0 $($(+ $param.seen())*)*)
        }
    };
}

alike!(args_1 Buffer<f32, 2>: a);
alike!(args_4 Buffer<f32, 2>: a b c d);
alike!(args_8 Buffer<f32, 2>: a b c d e f g h);
alike!(args_16 Buffer<f32, 2>: a b c d e f g h i j k l m n o p);
alike!(rets_8 Out<f32, 2>: a b c d e f g h);

alike!(args_8_rets_8 Buffer<f32, 2>: a b c d e f g h, Out<f32, 2>: i j k l m n o p);

alike!(attrs_1 i32: alpha);
alike!(attrs_4 i32: alpha beta gamma delta);
alike!(attrs_8 i32: alpha beta gamma delta epsilon zeta eta theta);

#[derive(Attribute)]
struct Config {
    alpha: i32,
    beta: i32,
    gamma: i32,
    delta: i32,
    epsilon: i32,
    zeta: i32,
    eta: i32,
    theta: i32,
}

impl Config {
    #[inline(always)]
    fn seen(&self) -> usize {
        let first = [self.alpha, self.beta, self.gamma, self.delta];
        let rest = [self.epsilon, self.zeta, self.eta, self.theta];
        let sum = |fields: [i32; 4]| fields.iter().map(|field| *field as usize).sum::<usize>();
        sum(first) + sum(rest)
    }
}

#[xla_ffi::handler]
fn struct_dictionary(config: Config) -> Result<()> {
    keep(config.seen())
}

#[xla_ffi::handler]
fn struct_attributes(#[attr(flatten)] config: Config) -> Result<()> {
    keep(config.seen())
}

#[xla_ffi::handler]
fn mixed(mut x: Buffer<f32, 2>, mut y: Out<f32, 2>, mut alpha: i32) -> Result<()> {
    keep(x.seen() + y.seen() + alpha.seen())
}

#[xla_ffi::handler(shape = "b n, n m -> b m")]
fn contract(mut x: Buffer<f32, 2>, mut y: Buffer<f32, 2>, mut z: Out<f32, 2>) -> Result<()> {
    keep(x.seen() + y.seen() + z.seen())
}

#[xla_ffi::handler(platforms = ["cuda"])]
fn device(x: DeviceBuffer<f32, 2>, y: DeviceOut<f32, 2>, alpha: i32, stream: Stream) -> Result<()> {
    let arrays = x.as_device_ptr() as usize + x.len() + y.as_device_mut_ptr() as usize + y.len();
    keep(arrays + alpha as usize + stream.as_raw() as usize)
}

#[xla_ffi::handler]
fn async_inline(mut x: Buffer<f32, 2>, later: Later) -> Result<()> {
    let promise = later.promise(());
    promise.complete(keep(x.seen()));
    Ok(())
}

#[xla_ffi::handler]
fn singular(mut x: Buffer<f32, 2>) -> Result<()> {
    keep(x.seen())?;
    Err(Error::invalid_argument(
        "the matrix is singular to working precision",
    ))
}

fn seen_args(xs: RemainingArgs) -> Result<usize> {
    let mut seen = 0_usize;
    for x in xs {
        let x = x.typed::<f32, 2>()?;
        seen = seen.wrapping_add(x.as_ptr() as usize + x.len());
    }
    Ok(seen)
}

fn seen_rets(ys: RemainingRets) -> Result<usize> {
    let mut seen = 0_usize;
    for y in ys {
        let mut y = y.typed::<f32, 2>()?;
        seen = seen.wrapping_add(y.as_uninit().as_ptr() as usize + y.len());
    }
    Ok(seen)
}

#[xla_ffi::handler]
fn args(xs: RemainingArgs) -> Result<()> {
    keep(seen_args(xs)?)
}

#[xla_ffi::handler]
fn rets(ys: RemainingRets) -> Result<()> {
    keep(seen_rets(ys)?)
}

#[xla_ffi::handler]
fn args_rets(xs: RemainingArgs, ys: RemainingRets) -> Result<()> {
    keep(seen_args(xs)?.wrapping_add(seen_rets(ys)?))
}

/// The attribute names that the dictionary `options` may contain.
static NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..4096).map(|index| format!("a{index:04}")).collect());

#[xla_ffi::handler]
fn attributes(options: Dictionary) -> Result<()> {
    let mut seen = 0_usize;
    for name in &NAMES[..options.len()] {
        seen += options.get::<i32>(name)? as usize;
    }
    keep(seen)
}

#[xla_ffi::handler]
fn depth(mut options: Dictionary) -> Result<()> {
    let mut seen = 0;
    while let Some(next) = options.get_optional("next")? {
        options = next;
        seen += 1;
    }
    keep(seen + options.get::<i32>("value")? as usize)
}

xla_ffi::library! {
    args_1, args_4, args_8, args_16, rets_8, args_8_rets_8, attrs_1, attrs_4, attrs_8,
    struct_dictionary, struct_attributes, mixed, contract, async_inline, singular, device,
    args, rets, args_rets, attributes, depth
}
