//! Tests the memory of operands and results: aliases, layouts, packed elements, and unwritten results.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "targets follow pointers to pointers; one promise covers each expression"
)]

use crate::execution::{
    data, f32s, fail, increment, leaf, legacy, metadata, numbers, program, register, with_legacy,
};
use std::ffi::c_void;
use xla_ffi_programs::{ApiVersion, Builder, CustomCall, Options, ValueShape};
use xla_ffi_runtime::legacy::Function;
use xla_ffi_runtime::{DType, Hazard, Revision, Runtime, Tensor, Tree, Unwritten};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error, XlaCustomCallStatus};

/// Adds 1 to both numbers if the result has the memory of the operand; otherwise fails.
unsafe extern "C" fn in_place(
    out: *mut c_void,
    ins: *mut *const c_void,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the call has one operand.
    if unsafe { *ins } != out.cast_const() {
        // SAFETY: the host's arguments are passed on unchanged.
        unsafe { fail(out, ins, status) };
    }
    // SAFETY: the host's arguments are passed on unchanged.
    unsafe { increment(out, ins, status) };
}

#[test]
fn aliased_operands_are_copied_unless_nobody_else_reads_them() {
    // SAFETY: the signature is that of the function.
    let runtime = with_legacy(&[("in_place", unsafe { Function::cpu_status(in_place) })]);
    let program = program(|b, x| {
        let once = b.custom_call(legacy("in_place", [x], f32s(&[2])).alias([], 0, []));
        let twice = b.custom_call(legacy("in_place", [once], f32s(&[2])).alias([], 0, []));
        b.tuple([x, once, twice])
    });
    let compiled = program.compile(&runtime).unwrap();
    let argument = leaf(&[1.0, 2.0]);
    let result = compiled.run([argument.clone()]).unwrap();
    assert_eq!(
        numbers(&result),
        [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]],
        "every reader sees the value that it reads"
    );
    assert_eq!(
        numbers(&argument),
        [[1.0, 2.0]],
        "what the caller holds is as it was"
    );

    // All calls of the chain use the donated memory.
    let program = self::program(|b, x| {
        let once = b.custom_call(legacy("in_place", [x], f32s(&[2])).alias([], 0, []));
        // The tuples are not used, so they do not count as uses of their elements.
        let unread = b.tuple([x, once]);
        b.get_tuple_element(unread, 0);
        b.custom_call(legacy("in_place", [once], f32s(&[2])).alias([], 0, []))
    });
    let compiled = program.compile(&runtime).unwrap();
    let argument = leaf(&[1.0, 2.0]);
    let before = argument.leaf().unwrap().bytes().as_ptr();
    let result = compiled.run([argument]).unwrap();
    assert_eq!(numbers(&result), [[3.0, 4.0]]);
    assert_eq!(result.leaf().unwrap().bytes().as_ptr(), before);
}

/// Writes the six numbers of the operand in memory order to the first result, and the numbers 0 to 5 to the second
/// result.
unsafe extern "C" fn as_they_lie(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: hosts pass a valid frame.
    if unsafe { metadata(frame) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the call has one operand of six numbers.
    let x = unsafe { data::<[f32; 6]>((*frame).args.args, 0).read() };
    // SAFETY: the call has two results of six numbers.
    unsafe { data::<[f32; 6]>((*frame).rets.rets, 0).write(x) };
    // SAFETY: the call has two results of six numbers.
    unsafe { data::<[f32; 6]>((*frame).rets.rets, 1).write([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]) };
    std::ptr::null_mut()
}

#[test]
fn layouts_change_bytes_and_no_values() {
    let runtime = Runtime::default();
    register(&runtime, "as_they_lie", as_they_lie);
    let column = ValueShape::array_with_layout(DType::F32, [2, 3], [0, 1]).unwrap();
    let mut b = Builder::new("layouts");
    let x = b.parameter(0, f32s(&[2, 3]), "x");
    let result = Tree::tuple([f32s(&[6]), column.clone()]);
    let call = CustomCall::ffi("as_they_lie", [x], result);
    let root = b.custom_call(call.operand_layouts([column]).alias([1], 0, []));
    let compiled = b.build(root).unwrap().compile(&runtime).unwrap();
    let x = Tensor::from_slice([2, 3], &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let result = compiled.run([Tree::Leaf(x)]).unwrap();
    assert_eq!(
        numbers(&result),
        [
            [0.0, 3.0, 1.0, 4.0, 2.0, 5.0],
            [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]
        ]
    );
}

/// Before r5, packed elements have the opposite order within a byte, so calls cannot write them to memory of the
/// caller.
#[test]
fn packed_results_are_given_whatever_the_host_makes_of_them() {
    unsafe extern "C" fn writes(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
        // SAFETY: hosts pass a valid frame, and the result has two bytes.
        unsafe {
            if !metadata(frame) {
                data::<[u8; 2]>((*frame).rets.rets, 0).write([0x12, 0x34]);
            }
        }
        std::ptr::null_mut()
    }
    for (revision, wanted) in [(Revision::R4, [0x21, 0x43]), (Revision::R5, [0x12, 0x34])] {
        let runtime = Runtime::new(revision);
        register(&runtime, "writes", writes);
        let mut b = Builder::new("p");
        let shape = ValueShape::array(DType::S4, [4]).unwrap();
        let root = b.custom_call(CustomCall::ffi("writes", [], shape));
        let compiled = b.build(root).unwrap().compile(&runtime).unwrap();
        let shape = xla_ffi_runtime::Shape::new(DType::S4, [4]).unwrap();
        let place = Tensor::zeros(shape).unwrap();
        let result = compiled.run_into([], [Some(place)], |call| call).unwrap();
        assert_eq!(result.leaf().unwrap().bytes(), wanted, "{revision}");
    }
}

/// Writes only the first of the two numbers in its result.
unsafe extern "C" fn first(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: hosts pass a valid frame.
    if unsafe { metadata(frame) } {
        return std::ptr::null_mut();
    }
    // SAFETY: hosts pass a valid frame.
    let rets = unsafe { (*frame).rets.rets };
    // SAFETY: the call has one result of two numbers.
    let y = unsafe { data::<u64>(rets, 0) };
    // SAFETY: the result has two numbers.
    unsafe { y.write(1) };
    std::ptr::null_mut()
}

/// Writes only the first of the two numbers in each result.
unsafe extern "C" fn half(out: *mut c_void, _ins: *mut *const c_void) {
    let out = out.cast::<*mut u64>();
    for index in 0..2 {
        // SAFETY: the result is a tuple of two arrays of two numbers.
        let ret = unsafe { out.wrapping_add(index).read() };
        // SAFETY: each array of the result has two numbers.
        unsafe { ret.write(1) };
    }
}

#[test]
fn programs_tell_it_of_typed_and_legacy_targets() {
    let runtime = Runtime::default();
    // SAFETY: `half` is a CPU target.
    let target = unsafe { Function::cpu(half) };
    runtime.register_legacy("half", "Host", target).unwrap();
    register(&runtime, "first", first);
    let u64s = ValueShape::array(DType::U64, [2]).unwrap();
    let run = |typed: bool, check: Unwritten| {
        let mut b = Builder::new("p");
        let x = b.parameter(0, ValueShape::array(DType::U8, [2]).unwrap(), "x");
        let root = if typed {
            b.custom_call(CustomCall::ffi("first", [x], u64s.clone()))
        } else {
            let pair = Tree::tuple([u64s.clone(), u64s.clone()]);
            b.custom_call(CustomCall::legacy(ApiVersion::Original, "half", [x], pair))
        };
        let options = Options::new().unwritten(check);
        let program = b
            .build(root)
            .unwrap()
            .compile_with(&runtime, options)
            .unwrap();
        program.run([Tree::Leaf(Tensor::from_slice([2], &[1_u8, 2]).unwrap())])
    };
    for typed in [true, false] {
        assert!(run(typed, Unwritten::Allowed).is_ok());
        let error = run(typed, Unwritten::Refused).unwrap_err();
        assert!(error.has(Hazard::UnwrittenResult), "{error}");
        assert!(
            error.message().contains("instruction 'custom-call.1'"),
            "{error}"
        );
        assert_eq!(error.findings().len(), if typed { 1 } else { 2 });
        assert!(
            error.message().contains("never wrote element 1:"),
            "{error}"
        );
    }
}
