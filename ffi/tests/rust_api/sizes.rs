//! Tests sizes in shape contracts that attributes provide, and computed sizes of results.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::{array, call, refused, shape};
use xla_ffi::{Attribute, prelude::*};
use xla_ffi_runtime::{Call, DType, Tensor};

fn zeros(dims: &[i64]) -> Tensor {
    array(dims, &vec![0.0_f32; dims.iter().product::<i64>() as usize])
}

/// Adds arguments and results with the dimensions `args` and `rets` to a call.
fn with(call: Call, args: &[&[i64]], rets: &[&[i64]]) -> Call {
    let call = args.iter().fold(call, |call, dims| call.arg(zeros(dims)));
    rets.iter()
        .fold(call, |call, dims| call.ret(shape(DType::F32, dims)))
}

#[xla_ffi::handler(shape = "n 3, m 3 -> m k")]
fn neighbours(_x: Buffer<f32>, _y: Buffer<f32>, z: Out<f32>, _k: i32) -> Result<()> {
    z.leave_unwritten();
    Ok(())
}

#[xla_ffi::handler(shape = "n, m? -> n+1, 3*n/2-1, m?")]
fn computed(
    _x: Buffer<f32>,
    _w: Option<Buffer<f32>>,
    y: Out<f32>,
    z: Out<f32>,
    v: Option<Out<f32>>,
) -> Result<()> {
    y.leave_unwritten();
    z.leave_unwritten();
    if let Some(v) = v {
        v.leave_unwritten();
    }
    Ok(())
}

type Width = i64;

#[derive(Attribute)]
struct Window {
    #[attr(name = "width", default = 2)]
    _wide: Width,
    #[attr(name = "stride", narrow)]
    _stride: u8,
}

/// Attributes from a struct. One attribute is renamed and has a default, another attribute is
/// narrowed. One name occurs in an argument and in a result.
#[xla_ffi::handler(shape = "... n stride -> ... n/2 width")]
fn windows(_x: Buffer<f32>, y: Out<f32>, #[attr(flatten)] _window: Window) -> Result<()> {
    y.leave_unwritten();
    Ok(())
}

/// An enumeration, which callers pass as an integer.
#[derive(Attribute, Clone, Copy, PartialEq)]
#[repr(u8)]
enum Lanes {
    Two = 2,
    Four = 4,
}

#[xla_ffi::handler(shape = "n -> lanes size")]
fn lanes(_x: Buffer<f32>, y: Out<f32>, lanes: Lanes, _size: u64) -> Result<()> {
    assert!(lanes == Lanes::Two || lanes == Lanes::Four);
    y.leave_unwritten();
    Ok(())
}

/// A handler whose contract uses an attribute of a different stage.
struct Repeated {
    times: AtomicI64,
}

#[xla_ffi::stateful(shape = "n -> times n")]
impl Repeated {
    fn instantiate(times: i64) -> Result<Self> {
        Ok(Self {
            times: AtomicI64::new(times),
        })
    }

    fn execute(&self, _x: Buffer<f32>, y: Out<f32, 2>) -> Result<()> {
        assert_eq!(y.dims()[0] as i64, self.times.load(Ordering::Relaxed));
        y.leave_unwritten();
        Ok(())
    }
}

#[test]
fn sizes_hold() {
    let ok = |call: Call| drop(call.run().unwrap());
    ok(with(
        call::<neighbours>("{k = 5 : i32}"),
        &[&[4, 3], &[2, 3]],
        &[&[2, 5]],
    ));
    ok(with(call::<computed>("{}"), &[&[4]], &[&[5], &[5]]));
    ok(with(
        call::<computed>("{}"),
        &[&[2], &[7]],
        &[&[3], &[2], &[7]],
    ));
    ok(with(
        call::<windows>("{stride = 3 : i64}"),
        &[&[9, 4, 3]],
        &[&[9, 2, 2]],
    ));
    ok(with(
        call::<windows>("{stride = 1 : ui8, width = 7 : i64}"),
        &[&[0, 1]],
        &[&[0, 7]],
    ));
    ok(with(
        call::<lanes>("{lanes = 4 : ui8, size = 0 : ui64}"),
        &[&[1]],
        &[&[4, 0]],
    ));
    ok(with(
        call::<Repeated>("{times = 3 : i64}"),
        &[&[2]],
        &[&[3, 2]],
    ));
}

#[test]
fn broken_sizes_say_what_was_computed_from_what() {
    let computed = |n, y, z| with(call::<computed>("{}"), &[&[n]], &[&[y], &[z]]);
    let neighbours = call::<neighbours>("{k = 5 : i32}");
    let windows = call::<windows>("{stride = 3 : ui8}");
    for (call, told) in [
        (
            with(neighbours, &[&[4, 3], &[2, 3]], &[&[2, 4]]),
            &["`z`", "m = 2 from argument `y`", "k = 5 from attribute `k`"][..],
        ),
        (
            computed(4, 4, 5),
            &["`y`", "n = 4 from argument `x`, n+1 = 5", "F32[4]"],
        ),
        (
            computed(5, 6, 6),
            &["`z`", "3*n/2-1, which leaves a remainder"],
        ),
        (computed(0, 1, 0), &["`z`", "3*n/2-1, which is negative"]),
        (
            with(windows, &[&[4, 2]], &[&[2, 2]]),
            &["argument `x`", "stride = 3 from attribute `stride`"],
        ),
    ] {
        let text = refused(call);
        assert!(told.iter().all(|told| text.contains(told)), "{text}");
    }
}

xla_ffi::library! { name = "sizes"; neighbours, computed, windows, lanes, Repeated }
