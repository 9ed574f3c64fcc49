//! Sizes that attributes give to shape contracts, and sizes that results compute.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::kit::{array, call, load, refused, shape};
use proptest::collection::vec;
use proptest::prelude::*;
use xla_ffi::__private::Handler;
use xla_ffi::{Attribute, prelude::*};
use xla_ffi_contract::Contract;
use xla_ffi_runtime::{Attributes, Call, DType, Runtime, Tensor};

fn zeros(dims: &[i64]) -> Tensor {
    array(dims, &vec![0.0_f32; dims.iter().product::<i64>() as usize])
}

/// A call with arguments and results of these dimensions.
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

/// Attributes of a struct, one renamed and with a default, one narrowed; and one of both sides.
#[xla_ffi::handler(shape = "... n stride -> ... n/2 width")]
fn windows(_x: Buffer<f32>, y: Out<f32>, #[attr(flatten)] _window: Window) -> Result<()> {
    y.leave_unwritten();
    Ok(())
}

/// An enumeration, which is an integer for its callers.
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

/// The contract's attribute belongs to another stage.
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
    assert_eq!(
        refused(with(
            call::<neighbours>("{k = 5 : i32}"),
            &[&[4, 3], &[2, 3]],
            &[&[2, 4]]
        )),
        "neighbours (execute): result `z`: expected shape [m, k] with m = 2 from argument `y`, k = 5 \
         from attribute `k`, got F32[2,4]; the contract is `n 3, m 3 -> m k`"
    );
    assert_eq!(
        refused(with(call::<computed>("{}"), &[&[4]], &[&[4], &[5]])),
        "computed (execute): result `y`: expected shape [n+1] with n = 4 from argument `x`, n+1 = 5, got \
         F32[4]; the contract is `n, m? -> n+1, 3*n/2-1, m?`"
    );
    assert_eq!(
        refused(with(call::<computed>("{}"), &[&[5]], &[&[6], &[6]])),
        "computed (execute): result `z`: expected shape [3*n/2-1] with n = 5 from argument `x`, 3*n/2-1, \
         which leaves a remainder, got F32[6]; the contract is `n, m? -> n+1, 3*n/2-1, m?`"
    );
    assert_eq!(
        refused(with(call::<computed>("{}"), &[&[0]], &[&[1], &[0]])),
        "computed (execute): result `z`: expected shape [3*n/2-1] with n = 0 from argument `x`, 3*n/2-1, \
         which is negative, got F32[0]; the contract is `n, m? -> n+1, 3*n/2-1, m?`"
    );
    assert_eq!(
        refused(with(
            call::<windows>("{stride = 3 : ui8}"),
            &[&[4, 2]],
            &[&[2, 2]]
        )),
        "windows (execute): argument `x`: expected shape [..., n, stride] with stride = 3 from attribute \
         `stride`, got F32[4,2]; the contract is `... n stride -> ... n/2 width`"
    );
}

/// Whether the contract's text, read as callers read it, allows these shapes.
fn allows<H: Handler>(args: &[Vec<i64>], attrs: &[(&str, i128)], rets: &[Vec<i64>]) -> bool {
    let contract = Contract::parse(H::INFO.shape).unwrap();
    let args: Vec<_> = args.iter().map(|dims| ("", dims.as_slice())).collect();
    let Ok(inferred) = contract.infer(&args, attrs) else {
        return false;
    };
    // Results that nothing tells, of absent arguments, are as they are.
    (inferred.iter().zip(rets)).all(|(shape, ret)| shape.as_ref().is_none_or(|shape| shape == ret))
}

/// Whether the handler takes them.
fn takes<H: Handler>(attrs: &Attributes, args: &[Vec<i64>], rets: &[Vec<i64>]) -> bool {
    let runtime = Runtime::default();
    let call = load::<H>(&runtime, &attrs.to_string()).unwrap().call();
    let args: Vec<&[i64]> = args.iter().map(Vec::as_slice).collect();
    let rets: Vec<&[i64]> = rets.iter().map(Vec::as_slice).collect();
    with(call, &args, &rets).run().is_ok()
}

proptest! {
    /// What the macros compile refuses the calls that the grammar's own reading refuses.
    #[test]
    fn the_compiled_contract_is_the_one_that_callers_read(
        dims in vec(0..4_i64, 8),
        stride in 0..4_u8,
        width in prop::option::of(-1..4_i64),
        batch in vec(0..3_i64, 0..3),
        third in any::<bool>(),
    ) {
        let args = vec![[&batch[..], &dims[..2]].concat()];
        let mut attrs = Attributes::new().with("stride", stride);
        if let Some(width) = width {
            attrs = attrs.with("width", width);
        }
        let given = [("stride", stride.into()), ("width", width.unwrap_or(2).into())];
        let near = vec![[&batch[..], &[dims[0] / 2, width.unwrap_or(2).max(0)]].concat()];
        for rets in [near, vec![dims[2..4].to_vec()]] {
            prop_assert_eq!(
                takes::<windows>(&attrs, &args, &rets),
                allows::<windows>(&args, &given, &rets),
                "{:?} {:?} {:?}", args, attrs, rets
            );
        }
        let args: Vec<Vec<i64>> = dims[..1 + usize::from(third)].iter().map(|n| vec![*n]).collect();
        let n = args[0][0];
        let mut near = vec![vec![n + 1], vec![(3 * n / 2 - 1).max(0)]];
        let mut far = vec![vec![dims[4]], vec![dims[5]]];
        if third {
            near.push(args[1].clone());
            far.push(vec![dims[6]]);
        }
        for rets in [near, far] {
            prop_assert_eq!(
                takes::<computed>(&Attributes::new(), &args, &rets),
                allows::<computed>(&args, &[], &rets),
                "{:?} {:?}", args, rets
            );
        }
    }
}

xla_ffi::library! { name = "sizes"; neighbours, computed, windows, lanes, Repeated }
