//! A library that registers itself when it is loaded, with a small host that exports the function for its table.

use std::path::Path;
use xla_ffi_runtime::{Attributes, Revision, Runtime, Shape, Tensor};
use xla_ffi_sys::{Revision as Abi, XLA_FFI_Api};
use xla_ffi_testing::compiler::shared_library;
use xla_ffi_testing::examples::rust_examples;

/// The host: a library that gives the table it was told of. Loaded as Python loads, for itself alone.
fn host(test: &str, table: *const XLA_FFI_Api) -> Option<libloading::Library> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let source = folder.join("host.c");
    let text = "static const void* table;\n\
        void set_table(const void* it) { table = it; }\n\
        const void* XLA_FFI_GetApi(void) { return table; }\n";
    std::fs::write(&source, text).unwrap();
    let path = shared_library(&folder, test, &source, "host", &[])?;
    // SAFETY: made above.
    let library = unsafe { libloading::Library::new(path) }.expect("the host loads");
    // SAFETY: as declared above.
    let set = unsafe { library.get::<unsafe extern "C" fn(*const XLA_FFI_Api)>(b"set_table") };
    // SAFETY: as declared above.
    unsafe { set.unwrap()(table) };
    Some(library)
}

/// The library under a name of its own, so that it is loaded once more.
fn load(test: &str, copy: &str) -> libloading::Library {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("lib{copy}.so"));
    std::fs::copy(rust_examples().join("libon_load.so"), &path).unwrap();
    // SAFETY: a library of ours, whose constructor registers it.
    unsafe { libloading::Library::new(path) }.expect("the library loads")
}

const NAME: &str = "doubled_on_load";

/// One test, for what the process has loaded is what is tested.
#[test]
fn a_loaded_library_is_registered() {
    let test = "a_loaded_library_is_registered";
    let runtime = Runtime::new(Revision::R7);
    // Nobody there: nothing happens.
    std::mem::forget(load(test, "alone"));
    assert!(runtime.find(NAME, "cpu").is_err());
    let Some(one) = host(test, runtime.api()) else {
        return;
    };
    std::mem::forget(load(test, "registered"));
    let handler = runtime
        .find(NAME, "cpu")
        .expect("registered when it was loaded");
    let x = Tensor::from_slice([2], &[1.5_f32, -2.0]).unwrap();
    let shape = Shape::new(xla_ffi_runtime::DType::F32, [2]).unwrap();
    let call = handler.instantiate(&Attributes::new()).unwrap().call();
    let outcome = call.args([x]).ret(shape).run().unwrap();
    assert_eq!(outcome.rets[0].to_vec::<f32>(), Some(vec![3.0, -4.0]));
    // A library that does not ask for it is not registered.
    let plain = rust_examples().join("librms_norm.so");
    // SAFETY: a library of ours.
    std::mem::forget(unsafe { libloading::Library::new(plain) }.unwrap());
    assert!(runtime.find("rms_norm", "cpu").is_err());
    // A host that refuses is told of, and the library stays loaded: the size alone says that it is from before r0.
    let table = [Abi::BEFORE_R0_STRUCT_SIZE - 8, 0, 0, 0, 0, 0, 0, 0];
    let refusing = host("a_host_that_refuses", table.as_ptr().cast());
    std::mem::forget(load(test, "refused"));
    std::mem::forget((one, refusing, table));
}
