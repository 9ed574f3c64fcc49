//! Every feature of the SDK in one library, for the matrix of runtimes. What each handler does is
//! written down in `tests/jax/README.md`; the same handlers exist in C and in C++.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use xla_ffi::{
    Attribute, ErrorCode, F4E2M1FN, Future, Later, PackedElement, S2, S4, U2, U4, bit_width,
    prelude::*,
};

#[path = "shared/counter.rs"]
mod counter;
#[path = "shared/sleep.rs"]
mod sleep;

#[xla_ffi::handler(shape = "... -> ...")]
fn scale(x: Buffer<f32>, mut y: Out<f32>, factor: f32) -> Result<()> {
    y.write_with(|i| x[i] * factor);
    Ok(())
}

#[xla_ffi::handler]
fn echo_bool(mut y: Out<i64, 0>, value: bool) -> Result<()> {
    y.fill(i64::from(value));
    Ok(())
}

#[xla_ffi::handler]
#[expect(clippy::too_many_arguments, reason = "one attribute of each type")]
fn echo_ints(
    mut y: Out<i64, 1>,
    #[attr(name = "i8")] a: i8,
    #[attr(name = "i16")] b: i16,
    #[attr(name = "i32")] c: i32,
    #[attr(name = "i64")] d: i64,
    #[attr(name = "u8")] e: u8,
    #[attr(name = "u16")] f: u16,
    #[attr(name = "u32")] g: u32,
    #[attr(name = "u64")] h: u64,
) -> Result<()> {
    y.copy_from(&[
        a.into(),
        b.into(),
        c.into(),
        d,
        e.into(),
        f.into(),
        g.into(),
        h.cast_signed(),
    ])?;
    Ok(())
}

#[xla_ffi::handler]
fn echo_floats(
    mut y: Out<f64, 1>,
    #[attr(name = "f32")] a: f32,
    #[attr(name = "f64")] b: f64,
) -> Result<()> {
    y.copy_from(&[a.into(), b])?;
    Ok(())
}

#[xla_ffi::handler]
fn echo_string(mut y: Out<u8, 1>, text: &str) -> Result<()> {
    y.copy_from(text.as_bytes())?;
    Ok(())
}

fn widened<'a, T: Copy + Into<f64>>(values: &'a [T]) -> impl Iterator<Item = f64> + 'a {
    values.iter().map(|value| (*value).into())
}

fn fill_exactly(y: &mut Out<f64, 1>, values: &[f64]) -> Result<()> {
    y.copy_from(values)?;
    Ok(())
}

#[xla_ffi::handler]
fn echo_arrays(
    mut y: Out<f64, 1>,
    #[attr(name = "i8")] a: &[i8],
    #[attr(name = "i16")] b: &[i16],
    #[attr(name = "i32")] c: &[i32],
    #[attr(name = "i64")] d: &[i64],
    #[attr(name = "f32")] e: &[f32],
    #[attr(name = "f64")] f: &[f64],
) -> Result<()> {
    let values: Vec<f64> = widened(a)
        .chain(widened(b))
        .chain(widened(c))
        .chain(d.iter().map(|value| *value as f64))
        .chain(widened(e))
        .chain(widened(f))
        .collect();
    fill_exactly(&mut y, &values)
}

#[xla_ffi::handler]
fn echo_unsigned_arrays(
    mut y: Out<f64, 1>,
    #[attr(name = "u8")] a: &[u8],
    #[attr(name = "u16")] b: &[u16],
    #[attr(name = "u32")] c: &[u32],
    #[attr(name = "u64")] d: &[u64],
) -> Result<()> {
    let values: Vec<f64> = widened(a)
        .chain(widened(b))
        .chain(widened(c))
        .chain(d.iter().map(|value| *value as f64))
        .collect();
    fill_exactly(&mut y, &values)
}

#[derive(Attribute)]
struct Options<'a> {
    flag: bool,
    n: i64,
    x: f64,
    name: &'a str,
}

#[xla_ffi::handler]
fn echo_dict(mut y: Out<f64, 1>, options: Options) -> Result<()> {
    let Options { flag, n, x, name } = options;
    y.copy_from(&[f64::from(u8::from(flag)), n as f64, x, name.len() as f64])?;
    Ok(())
}

#[xla_ffi::handler]
fn echo_nested(mut y: Out<f64, 1>, options: Dictionary) -> Result<()> {
    let n: i64 = options.get("n")?;
    let inner: Dictionary = options.get("inner")?;
    let list: &[i64] = options.get("list")?;
    let sum: i64 = list.iter().sum();
    y.copy_from(&[n as f64, inner.get("x")?, sum as f64])?;
    Ok(())
}

#[xla_ffi::handler]
fn echo_optional(mut y: Out<f64, 1>, #[attr(default = 7)] n: i64, x: Option<f64>) -> Result<()> {
    y.copy_from(&[n as f64, x.unwrap_or(-1.0)])?;
    Ok(())
}

#[xla_ffi::handler]
fn describe(x: AnyBuffer, mut y: Out<i64, 1>) -> Result<()> {
    if x.dtype().0 == 0 || bit_width(x.dtype()).is_none() {
        return Err(Error::unimplemented(
            "this runtime does not name the element type; jaxlib 0.6.0 and newer do",
        ));
    }
    let mut told = [-1; 8];
    told[0] = i64::from(x.dtype().0);
    told[1] = x.dims().len() as i64;
    told[2] = x.element_count() as i64;
    told[3] = x.byte_size() as i64;
    for (slot, dim) in told[4..].iter_mut().zip(x.dims()) {
        *slot = *dim as i64;
    }
    y.copy_from(&told)?;
    Ok(())
}

#[xla_ffi::handler(shape = "... -> ...")]
fn copy(x: AnyBuffer, mut y: AnyOut) -> Result<()> {
    y.copy_from_bytes(x.bytes())?;
    Ok(())
}

fn unpacked<P: PackedElement>(
    x: &AnyBuffer,
    y: &mut Out<i8, 1>,
    value: impl Fn(P::Value) -> i8,
) -> Result<()> {
    y.write_iter(x.packed::<P, 1>()?.iter().map(value))?;
    Ok(())
}

const NO_PACKED: &str = "elements of less than a byte: this runtime does not name their type; jaxlib 0.6.0 and newer do";

#[xla_ffi::handler(shape = "n -> n")]
fn unpack(x: AnyBuffer, mut y: Out<i8, 1>) -> Result<()> {
    use xla_ffi::DataType as D;
    match x.dtype() {
        D::S4 => unpacked::<S4>(&x, &mut y, |v| v),
        D::U4 => unpacked::<U4>(&x, &mut y, u8::cast_signed),
        D::S2 => unpacked::<S2>(&x, &mut y, |v| v),
        D::U2 => unpacked::<U2>(&x, &mut y, u8::cast_signed),
        D::F4E2M1FN => unpacked::<F4E2M1FN>(&x, &mut y, u8::cast_signed),
        D::INVALID => Err(Error::unimplemented(NO_PACKED)),
        _ => Err(Error::invalid_argument(format!("`x`: {x:?} is not packed"))),
    }
}

#[xla_ffi::handler(shape = "n -> n")]
fn unpack_s4(x: xla_ffi::Packed<S4, 1>, mut y: Out<i8, 1>) -> Result<()> {
    y.write_iter(x.iter())?;
    Ok(())
}

#[xla_ffi::handler(shape = "n -> n")]
fn pack(x: Buffer<i8, 1>, y: AnyOut) -> Result<()> {
    use xla_ffi::DataType as D;
    match y.dtype() {
        D::S4 => y.packed::<S4, 1>()?.write_with(|i| x[i]),
        D::U4 => y.packed::<U4, 1>()?.write_with(|i| x[i].cast_unsigned()),
        D::S2 => y.packed::<S2, 1>()?.write_with(|i| x[i]),
        D::U2 => y.packed::<U2, 1>()?.write_with(|i| x[i].cast_unsigned()),
        D::F4E2M1FN => y
            .packed::<F4E2M1FN, 1>()?
            .write_with(|i| x[i].cast_unsigned()),
        D::INVALID => return Err(Error::unimplemented(NO_PACKED)),
        _ => return Err(Error::invalid_argument(format!("`y`: {y:?} is not packed"))),
    };
    Ok(())
}

#[xla_ffi::handler]
fn sum_all(xs: RemainingArgs, mut y: Out<f32, 0>) -> Result<()> {
    let mut sum = 0.0;
    for index in 0..xs.len() {
        sum += xs.get::<f32, ANY_RANK>(index)?.iter().sum::<f32>();
    }
    y.fill(sum);
    Ok(())
}

#[xla_ffi::handler(shape = "token, ... -> token, ...")]
fn add_tokens(_t: Token, x: Buffer<f32>, _done: TokenOut, mut y: Out<f32>) -> Result<()> {
    y.write_with(|i| x[i] + 1.0);
    Ok(())
}

#[xla_ffi::handler]
fn increment(mut x: InOut<f32>) -> Result<()> {
    x.iter_mut().for_each(|x| *x += 1.0);
    Ok(())
}

fn coded(code: i32, message: &str) -> Error {
    let code = u32::try_from(code).unwrap_or(u32::MAX);
    let code = ErrorCode::from_raw(xla_ffi::RawErrorCode(code)).unwrap_or(ErrorCode::Unknown);
    Error::new(code, message.to_owned())
}

#[xla_ffi::handler]
fn fail(_x: Buffer<f32>, _y: Out<f32>, code: i32, message: &str) -> Result<()> {
    Err(coded(code, message))
}

#[xla_ffi::handler]
fn panic(_x: Buffer<f32>, _y: Out<f32>, message: &str) -> Result<()> {
    std::panic::panic_any(message.to_owned())
}

#[xla_ffi::handler(shape = "... -> ...")]
fn async_scale(
    x: Buffer<f32>,
    y: Out<f32>,
    factor: f32,
    delay_ms: i64,
    later: Later,
) -> Result<Future> {
    let (promise, future) = later.promise((x, y));
    let delay = Duration::from_millis(delay_ms.clamp(0, 10_000).unsigned_abs());
    thread::spawn(move || {
        thread::sleep(delay);
        promise.complete_with(|(x, mut y)| {
            y.write_with(|i| x[i] * factor);
            Ok(())
        });
    });
    Ok(future)
}

/// Set when `async_probe` has returned to its host.
struct Returned(std::sync::Arc<AtomicBool>);

impl Drop for Returned {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[xla_ffi::handler]
fn async_probe(y: Out<i64, 1>, later: Later) -> Result<Future> {
    let has_futures = later.is_async();
    let (promise, future) = later.promise(y);
    let caller = thread::current().id();
    let returned = std::sync::Arc::new(AtomicBool::new(false));
    let seen = std::sync::Arc::clone(&returned);
    thread::spawn(move || {
        // A runtime without futures makes the handler wait for this very completion.
        while has_futures && !seen.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        promise.complete_with(|mut y| {
            let elsewhere = thread::current().id() != caller;
            y.copy_from(&[i64::from(elsewhere), i64::from(has_futures)])?;
            Ok(())
        });
    });
    drop(Returned(returned));
    Ok(future)
}

#[xla_ffi::handler]
async fn async_fail(x: Buffer<f32>, y: Out<f32>, code: i32, message: &str) -> Result<()> {
    let _ = (x, y);
    sleep::sleep(Duration::ZERO).await;
    Err(coded(code, message))
}

#[xla_ffi::handler]
fn pool_sum(
    x: Buffer<f32, 1>,
    mut y: Out<f32, 0>,
    mut ran: Out<i64, 1>,
    tasks: i64,
    pool: ThreadPool,
) -> Result<()> {
    let tasks = usize::try_from(tasks)
        .map_err(|_| Error::invalid_argument("tasks < 0"))?
        .max(1);
    let x = x.as_slice();
    let piece = x.len().div_ceil(tasks).max(1);
    let caller = thread::current().id();
    let mut sums = vec![0.0f32; tasks];
    let (all, off_caller) = (AtomicI64::new(0), AtomicI64::new(0));
    // The caller takes part in the loop: rests let the pool's threads begin.
    pool.for_each_chunk(&mut sums, 1, |index, sum| {
        let start = (index * piece).min(x.len());
        sum[0] = x[start..(start + piece).min(x.len())].iter().sum();
        all.fetch_add(1, Ordering::Relaxed);
        if thread::current().id() == caller {
            thread::sleep(Duration::from_millis(5));
        } else {
            off_caller.fetch_add(1, Ordering::Relaxed);
        }
    });
    y.fill(sums.iter().sum());
    ran.copy_from(&[all.into_inner(), off_caller.into_inner()])?;
    Ok(())
}

#[xla_ffi::handler(floor = "r3")]
fn pool_threads(mut y: Out<i64, 0>, pool: ThreadPool) -> Result<()> {
    y.fill(pool.size()?.try_into().unwrap_or(i64::MAX));
    Ok(())
}

#[xla_ffi::handler]
fn run_id(_x: Buffer<f32, 0>, mut y: Out<i64, 0>, run: RunId) -> Result<()> {
    y.fill(run.get());
    Ok(())
}

#[xla_ffi::handler]
fn device_ordinal(_x: Buffer<f32, 0>, mut y: Out<i32, 0>, ordinal: DeviceOrdinal) -> Result<()> {
    y.fill(ordinal.get());
    Ok(())
}

#[xla_ffi::handler]
fn custom_options(_x: Buffer<f32, 0>, mut y: Out<i64, 0>, options: CustomOptions) -> Result<()> {
    y.fill(options.len() as i64);
    Ok(())
}

#[xla_ffi::handler]
fn optional_parts(
    _x: Buffer<f32, 0>,
    mut y: Out<i64, 1>,
    run: Option<RunId>,
    ordinal: Option<DeviceOrdinal>,
    pool: Option<ThreadPool>,
) -> Result<()> {
    let size = pool.and_then(|pool| pool.size().ok());
    let parts = [run.is_some(), ordinal.is_some(), size.is_some()];
    y.copy_from(&parts.map(i64::from))?;
    Ok(())
}

xla_ffi::library! {
    scale, echo_bool, echo_ints, echo_floats, echo_string, echo_arrays, echo_unsigned_arrays,
    echo_dict, echo_nested, echo_optional, describe, copy, unpack, unpack_s4, pack, sum_all,
    add_tokens, increment, fail, panic, counter::Counter, counter::counter_stats, async_scale,
    async_probe, async_fail, pool_sum, pool_threads, run_id, device_ordinal, custom_options,
    optional_parts,
}
