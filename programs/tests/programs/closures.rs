//! What a program's closure makes of a call, with `run_with`.

use xla_ffi_programs::{Builder, CustomCall, ValueShape};
use xla_ffi_runtime::{Bundle, Call, DType, Runtime, Shape, Tensor};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error};

unsafe extern "C" fn nothing(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: a host's frame.
    let _asked = unsafe { crate::execution::metadata(frame) };
    std::ptr::null_mut()
}

/// What comes behind a call reads as much as the program says.
#[test]
fn a_changed_call_gives_no_other_results() {
    let runtime = Runtime::default();
    // SAFETY: the function is a handler.
    let bundle = unsafe { Bundle::execute(nothing) };
    runtime.register("nothing", "Host", bundle, 0).unwrap();
    let other = runtime.handler("other", bundle).unwrap();
    let other = other.instantiate(&xla_ffi_runtime::Attributes::new());
    let other = other.unwrap();
    let mut b = Builder::new("p");
    let shape = ValueShape::array(DType::F32, [4096]).unwrap();
    let root = b.custom_call(CustomCall::ffi("nothing", [], shape));
    let compiled = b.build(root).unwrap().compile(&runtime).unwrap();
    let small = || Shape::new(DType::F32, [1]).unwrap();
    let run = |change: &dyn Fn(Call) -> Call| {
        let result = compiled.run_with([], change);
        result.map(|result| result.leaf().map(Tensor::shape).cloned())
    };
    let whole = Shape::new(DType::F32, [4096]).unwrap();
    assert_eq!(run(&|call| call.run_id(3)).unwrap(), Some(whole));
    let told = |change: &dyn Fn(Call) -> Call| run(change).unwrap_err().message().to_owned();
    assert!(told(&|call| call.ret(small())).contains("more results"));
    assert!(told(&|_| other.call().ret(small())).contains("f32[1] for f32[4096]"));
    assert!(told(&|_| other.call()).contains("fewer results"));
}
