//! Tests targets of the original conventions that accept tuples and whose functions are safe code. Covers both forms,
//! on the CPU and on a device whose streams are threads.

use std::ffi::c_void;
use xla_ffi::sys::XlaFfiLegacyTarget;
use xla_ffi::{DataType, DeviceBuffer, DeviceOut, prelude::*};
use xla_ffi_legacy::{CpuStreams, Shapes, Staging};
use xla_ffi_runtime::legacy::{ApiVersion, Invocation, TupleForm};
use xla_ffi_runtime::{CpuDevice, CpuStream, DeviceStream, Runtime, Tree};

/// Computes (x + y, z - x) on integers; refuses a negative z.
#[xla_ffi::handler(shape = "n, n, n -> n, n")]
fn mix(
    x: Buffer<i32, 1>,
    y: Buffer<i32, 1>,
    z: Buffer<i32, 1>,
    mut sum: Out<i32, 1>,
    mut rest: Out<i32, 1>,
) -> Result<()> {
    if z[0] < 0 {
        return Err(Error::invalid_argument(format!("z[0] is {}", z[0])));
    }
    sum.write_with(|i| x[i] + y[i]);
    rest.write_with(|i| z[i] - x[i]);
    Ok(())
}

#[xla_ffi::handler]
fn double(x: Buffer<i32, 1>, mut y: Out<i32, 1>) -> Result<()> {
    y.write_with(|i| 2 * x[i]);
    Ok(())
}

/// Enqueues the computation of `mix` in device memory on the stream.
#[xla_ffi::handler(platforms = ["CUDA"])]
fn mix_later(
    x: DeviceBuffer<i32, 1>,
    y: DeviceBuffer<i32, 1>,
    z: DeviceBuffer<i32, 1>,
    sum: DeviceOut<i32, 1>,
    rest: DeviceOut<i32, 1>,
    stream: Stream,
) -> Result<()> {
    if x.len() != 2 {
        return Err(Error::invalid_argument(format!("{} elements", x.len())));
    }
    let ins = [x, y, z].map(|x| x.as_device_ptr() as usize);
    let outs = [sum, rest].map(|x| x.as_device_mut_ptr() as usize);
    let stream = CpuStream::from_handle(stream.as_raw()).expect("a stream of this runtime");
    stream.enqueue(Box::new(move || {
        for i in 0..2 {
            // SAFETY: each operand has two elements, which are valid until the stream has run this
            // task.
            let [x, y, z] = ins.map(|x| unsafe { (x as *const i32).wrapping_add(i).read() });
            for (out, value) in outs.iter().zip([x + y, z - x]) {
                // SAFETY: each operand has two elements, which are valid until the stream has run
                // this task.
                unsafe { (*out as *mut i32).wrapping_add(i).write(value) };
            }
        }
    }));
    Ok(())
}

/// Reads the opaque byte, which is the number of elements. For the byte 255, the shapes lack one
/// operand.
fn sizes(opaque: &[u8]) -> Result<Shapes> {
    let [n] = opaque else {
        return Err(Error::invalid_argument("one byte says the size"));
    };
    let one = || (DataType::S32, vec![i64::from(*n)]);
    Ok(match n {
        255 => Shapes {
            args: vec![one(), one()],
            rets: vec![one(), one()],
        },
        _ => Shapes {
            args: vec![one(), one(), one()],
            rets: vec![one(), one()],
        },
    })
}

static TUPLES: Staging<CpuStreams> = Staging::new(CpuStreams::new(), 2);

xla_ffi_legacy::legacy! {
    roots = cpu_status(mix), tuples = "roots":
        (i32[2], ((), i32[2])), i32[2] -> ((i32[2]), i32[2]);
    leaves = cpu_status(mix), tuples = "leaves":
        (i32[2], ((), i32[2])), i32[2] -> ((i32[2]), i32[2]);
    one_root = cpu_status(double), tuples = "roots": (i32[2]) -> (i32[2]);
    one_leaf = cpu_status(double), tuples = "leaves": (i32[2]) -> (i32[2]);
    bare_leaf = cpu_status(double), tuples = "leaves": (i32[2]) -> i32[2];
    // SAFETY: the programs below pass the sizes of their operands.
    told = cpu_unified(mix), shapes = unsafe sizes, structure = " (_, _) , _ -> (_, (_)) ", tuples = "roots";
    // SAFETY: the programs below pass the sizes of their operands.
    told_leaves = cpu_unified(mix), shapes = unsafe sizes, structure = "(_, _), _ -> (_, (_))", tuples = "leaves";
    device_leaves = gpu_status(mix_later), tuples = "leaves":
        (i32[2], ((), i32[2])), i32[2] -> ((i32[2]), i32[2]);
    device_roots = gpu_status(mix_later), tuples = "roots", pool = TUPLES:
        (i32[2], ((), i32[2])), i32[2] -> ((i32[2]), i32[2]);
    // SAFETY: the programs below pass the sizes of their operands.
    device_told = gpu_status(mix_later), shapes = unsafe sizes, structure = "(_, ((), _)), _ -> ((_), _)",
        tuples = "roots", pool = TUPLES;
}

xla_ffi::library! {
    name = "legacy_tuples";
    mix,
    legacy roots,
    legacy leaves,
    legacy one_root,
    legacy one_leaf,
    legacy bare_leaf,
    legacy told,
    legacy told_leaves,
    legacy device_leaves,
    legacy device_roots,
    legacy device_told,
}

unsafe extern "C" {
    fn legacy_tuples__xla_ffi_legacy_targets() -> *const XlaFfiLegacyTarget;
}

fn runtime() -> Runtime {
    let runtime = Runtime::default();
    // SAFETY: `library!` defines this function.
    let list = unsafe { legacy_tuples__xla_ffi_legacy_targets() };
    // SAFETY: the list belongs to this program.
    unsafe { runtime.register_legacy_list(list) }.expect("all are registered");
    runtime
}

/// The buffers of three operands and two results, each with two integers.
struct Operands([Vec<i32>; 5]);

impl Operands {
    fn new(z: i32) -> Self {
        Self([
            vec![1, 2],
            vec![10, 20],
            vec![z, 200],
            vec![0, 0],
            vec![0, 0],
        ])
    }

    fn pointers(&mut self) -> [*mut c_void; 5] {
        self.0.each_mut().map(|x| x.as_mut_ptr().cast())
    }

    /// Returns pointers to the operands as the tuples `(x, ((), y)), z -> ((sum), rest)`.
    fn trees(&mut self) -> ([Tree<*mut c_void>; 2], Tree<*mut c_void>) {
        let [x, y, z, sum, rest] = self.pointers().map(Tree::Leaf);
        let pair = Tree::tuple([x, Tree::tuple([Tree::tuple([]), y])]);
        ([pair, z], Tree::tuple([Tree::tuple([sum]), rest]))
    }

    fn check(&self, context: &str) {
        assert_eq!(self.0[3..], [vec![11, 22], vec![99, 198]], "{context}");
    }
}

use ApiVersion::{StatusReturning, StatusReturningUnified};

#[test]
fn both_forms_in_host_memory() {
    let runtime = runtime();
    for (name, form) in [
        ("roots", TupleForm::CpuRoots),
        ("leaves", TupleForm::CpuLeaves),
    ] {
        let target = runtime
            .find_legacy(name, "Host", StatusReturning)
            .expect(name);
        let mut operands = Operands::new(100);
        let (args, result) = operands.trees();
        let call = Invocation::new(&target, &args, &result).form(form);
        // SAFETY: the buffers have the types and sizes that the target expects.
        unsafe { call.run() }.expect(name);
        operands.check(name);
        let mut operands = Operands::new(-5);
        let (args, result) = operands.trees();
        let call = Invocation::new(&target, &args, &result).form(form);
        // SAFETY: the buffers have the types and sizes that the target expects.
        let error = unsafe { call.run() }.expect_err("the handler refuses it");
        assert!(error.message().contains("z[0] is -5"), "{error}");
    }
    // A tuple of one element is passed as an array of one element, even in the form of leaves. A leaf is not passed
    // as an array.
    for (name, form, is_tuple) in [
        ("one_root", TupleForm::CpuRoots, true),
        ("one_leaf", TupleForm::CpuLeaves, true),
        ("bare_leaf", TupleForm::CpuLeaves, false),
    ] {
        let target = runtime
            .find_legacy(name, "Host", StatusReturning)
            .expect(name);
        let (mut x, mut y) = ([3_i32, 4], [0_i32; 2]);
        let args = [Tree::tuple([Tree::Leaf((&raw mut x).cast())])];
        let result = Tree::Leaf((&raw mut y).cast());
        let result = if is_tuple {
            Tree::tuple([result])
        } else {
            result
        };
        // SAFETY: the buffers have the types and sizes that the target expects.
        unsafe { Invocation::new(&target, &args, &result).form(form).run() }.expect(name);
        assert_eq!(y, [6, 8], "{name}");
    }
}

#[test]
fn tuples_whose_sizes_the_opaque_bytes_tell() {
    let runtime = runtime();
    for (name, form) in [
        ("told", TupleForm::CpuRoots),
        ("told_leaves", TupleForm::CpuLeaves),
    ] {
        let target = runtime
            .find_legacy(name, "Host", StatusReturningUnified)
            .expect(name);
        let run = |opaque: &[u8]| {
            let mut operands = Operands::new(100);
            let [x, y, z, sum, rest] = operands.pointers().map(Tree::Leaf);
            let (args, result) = (
                [Tree::tuple([x, y]), z],
                Tree::tuple([sum, Tree::tuple([rest])]),
            );
            let call = Invocation::new(&target, &args, &result)
                .form(form)
                .opaque(opaque);
            // SAFETY: the buffers have the types and sizes that the target expects.
            unsafe { call.run() }.map(|()| operands)
        };
        run(&[2]).expect(name).check(name);
        let error = run(&[255]).err().expect("another number of leaves");
        let part = "has 3 leaves of operands and 2 of the result, the shapes are 2 and 2";
        assert!(error.message().contains(part), "{name}: {error}");
        let error = run(b"").err().expect("no size");
        assert!(
            error.message().contains("one byte says the size"),
            "{error}"
        );
    }
}

#[test]
fn both_forms_on_a_device() {
    let runtime = runtime();
    let device = CpuDevice::new().expect("a device");
    let nodes = |null_inputs| TupleForm::DeviceNodes { null_inputs };
    for (name, form, opaque) in [
        ("device_leaves", TupleForm::DeviceLeaves, &b""[..]),
        ("device_roots", nodes(false), b""),
        ("device_roots", nodes(true), b""),
        ("device_told", nodes(true), &[2]),
    ] {
        let target = runtime
            .find_legacy(name, "CUDA", StatusReturning)
            .expect(name);
        for _ in 0..5 {
            let mut operands = Operands::new(100);
            let (args, result) = operands.trees();
            let call = Invocation::new(&target, &args, &result).form(form);
            let call = call.stream(device.stream.stream()).opaque(opaque);
            // SAFETY: the buffers outlive the call.
            unsafe { call.run() }.unwrap_or_else(|error| panic!("{name}: {error}"));
            operands.check(name);
        }
    }
    assert!(TUPLES.slots() <= 2);
}
