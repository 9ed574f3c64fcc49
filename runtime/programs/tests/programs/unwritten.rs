//! Results that targets of programs leave unwritten are told, where that is asked for.

use crate::execution::{data, metadata, register};
use std::ffi::c_void;
use xla_ffi_programs::{ApiVersion, Builder, CustomCall, Options, ValueShape};
use xla_ffi_runtime::legacy::Function as Target;
use xla_ffi_runtime::{DType, Hazard, Runtime, Tensor, Tree, Unwritten};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error};

/// Writes the first of two numbers of its result.
unsafe extern "C" fn first(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    if unsafe { metadata(frame) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the frame is a host's.
    let rets = unsafe { (*frame).rets.rets };
    // SAFETY: the call has one result of two numbers.
    let y = unsafe { data::<u64>(rets, 0) };
    // SAFETY: as above.
    unsafe { y.write(1) };
    std::ptr::null_mut()
}

/// Writes the first of two numbers of each result.
unsafe extern "C" fn half(out: *mut c_void, _ins: *mut *const c_void) {
    let out = out.cast::<*mut u64>();
    for index in 0..2 {
        // SAFETY: a tuple of two results of two numbers.
        let ret = unsafe { out.wrapping_add(index).read() };
        // SAFETY: as above.
        unsafe { ret.write(1) };
    }
}

#[test]
fn programs_tell_it_of_typed_and_legacy_targets() {
    let runtime = Runtime::default();
    // SAFETY: `half` is a CPU target.
    let target = unsafe { Target::cpu(half) };
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
