//! A machine without NVIDIA's driver: the libraries load and answer, calls say what is missing.

mod support;

use support::load;
use xla_ffi_runtime::{Code, DType, Shape, Stream, Tensor};
use xla_ffi_testing::skip;

#[test]
fn a_call_says_what_is_missing() {
    // SAFETY: loads NVIDIA's library, where there is one.
    if unsafe { libloading::Library::new("libcuda.so.1") }.is_ok() {
        skip("no_driver", "this machine has NVIDIA's driver");
        return;
    }
    let executable = load("tiled_add", "tiled_add", "{}");
    let x = || Tensor::from_slice([2], &[1.0_f32, 2.0]).unwrap();
    let call = || {
        executable
            .call()
            .arg(x())
            .arg(x())
            .ret(Shape::new(DType::F32, [2]).unwrap())
    };
    // SAFETY: nobody follows the address.
    let stream = unsafe { Stream::borrowed(0x5000 as *mut std::ffi::c_void) };
    let error = call().stream(stream).run().unwrap_err();
    assert!(
        error
            .message()
            .contains("libcuda.so.1 not found: this machine has no NVIDIA driver"),
        "{error}"
    );
    // Without a stream the host is no GPU's: that comes first.
    let error = call().run().unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented, "{error}");
    assert!(error.message().contains("stream"), "{error}");
}
