//! Tests that need no GPU: the checks of operands, and the error on a host without a device.

use std::ffi::c_void;
use xla_ffi_runtime::{Attributes, Executable, Runtime, Stage, Stream, Tensor};

fn scale(factor: f64) -> Executable {
    let file = format!(
        "{}@NAME@{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let library = std::env::current_exe().unwrap().with_file_name(file);
    let library = Runtime::default().open(&library).unwrap();
    let stages = [(Stage::Execute, "@NAME@__scale")];
    let handler = library.handler("scale", &stages).unwrap();
    let attributes = Attributes::new().with("factor", factor as f32);
    handler.instantiate(&attributes).unwrap()
}

#[test]
fn a_host_without_a_device_is_rejected() {
    let x = Tensor::from_slice([2], &[1.0_f32, 2.0]).unwrap();
    let shape = x.shape().clone();
    let error = scale(2.0).call().arg(x).ret(shape).run().unwrap_err();
    assert!(error.message().contains("stream"), "{error}");
}

#[test]
fn wrong_operands_are_named() {
    let x = Tensor::from_slice([2], &[1, 2]).unwrap();
    let shape = x.shape().clone();
    // SAFETY: The call fails before any code uses the stream's address.
    let stream = unsafe { Stream::borrowed(0x5000 as *mut c_void) };
    let call = scale(2.0).call().stream(stream).arg(x).ret(shape);
    let error = call.run().unwrap_err();
    assert!(error.message().contains("argument `x`: expected F32"), "{error}");
}
