//! Tests Rust, C and C++ libraries that register themselves when loaded, with a minimal host that exports the function
//! for its API table.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use xla_ffi_runtime::{Attributes, Revision, Runtime, Shape, Tensor};
use xla_ffi_sys::XLA_FFI_Api;
use xla_ffi_testing::compiler::shared_library;
use xla_ffi_testing::{rust_examples, skip};

/// Loads a host: a library that returns the given table. The library is loaded without exporting its symbols globally,
/// as Python loads libraries.
fn host(test: &str, table: *const XLA_FFI_Api) -> Option<libloading::Library> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let source = folder.join("host.c");
    let text = "static const void* table;\n\
        void set_table(const void* it) { table = it; }\n\
        const void* XLA_FFI_GetApi(void) { return table; }\n";
    std::fs::write(&source, text).unwrap();
    let path = shared_library(&folder, test, &source, "host", &[])?;
    // SAFETY: the library is built above and has no initializers.
    let library = unsafe { libloading::Library::new(path) }.expect("the host loads");
    // SAFETY: the source above declares this type.
    let set = unsafe { library.get::<unsafe extern "C" fn(*const XLA_FFI_Api)>(b"set_table") };
    // SAFETY: the function only stores the address, and the table outlives the library.
    unsafe { set.unwrap()(table) };
    Some(library)
}

/// Returns the libraries by the name of their handler. Reports a skip for a language without a compiler.
fn languages(test: &str) -> Vec<(&'static str, PathBuf)> {
    let mut found = vec![("doubled_on_load", rust_examples().join("libon_load.so"))];
    for (name, file, compiler) in [
        (
            "doubled_on_load_c",
            "libon_load.so",
            option_env!("C_COMPILER"),
        ),
        (
            "doubled_on_load_cpp",
            "libon_load_cpp.so",
            option_env!("CPP_COMPILER"),
        ),
    ] {
        if compiler.is_some() {
            found.push((name, Path::new(env!("C_EXAMPLES_DIR")).join(file)));
        } else {
            skip(test, "no compiler");
        }
    }
    found
}

/// Loads a copy of a library, which the loader treats as a new library, and returns the text that the library writes to
/// stderr.
fn load(test: &str, path: &Path, copy: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let own = folder.join(format!("lib{copy}.so"));
    std::fs::copy(path, &own).unwrap();
    let log = std::fs::File::create(folder.join("stderr")).unwrap();
    // SAFETY: 2 is a descriptor of this process.
    let kept = unsafe { libc::dup(2) };
    // SAFETY: both are open descriptors of this process.
    unsafe { libc::dup2(log.as_raw_fd(), 2) };
    // SAFETY: the library is ours; its constructor registers it.
    let library = unsafe { libloading::Library::new(own) };
    // SAFETY: both are open descriptors of this process.
    unsafe { libc::dup2(kept, 2) };
    // SAFETY: the descriptor is ours and is closed only here.
    unsafe { libc::close(kept) };
    // Closing is safe immediately: a library that a host has registered remains loaded.
    drop(library.expect("the library loads"));
    std::fs::read_to_string(folder.join("stderr")).unwrap()
}

/// Tests all libraries in a single test, because the result depends on the libraries that the process has already
/// loaded.
#[test]
fn a_loaded_library_is_registered() {
    let test = "a_loaded_library_is_registered";
    let runtime = Runtime::new(Revision::R7);
    let languages = languages(test);
    for (name, path) in &languages {
        // Without a host, loading the library has no effect.
        assert_eq!(load(test, path, &format!("{name}_alone")), "");
        assert!(runtime.find(name, "cpu").is_err(), "{name}");
    }
    let Some(one) = host(test, runtime.api()) else {
        return;
    };
    for (name, path) in &languages {
        assert_eq!(load(test, path, &format!("{name}_registered")), "");
        let handler = runtime
            .find(name, "cpu")
            .expect("registered when it was loaded");
        let x = Tensor::from_slice([2], &[1.5_f32, -2.0]).unwrap();
        let shape = Shape::new(xla_ffi_runtime::DType::F32, [2]).unwrap();
        let call = handler.instantiate(&Attributes::new()).unwrap().call();
        let outcome = call.args([x]).ret(shape).run().unwrap();
        assert_eq!(outcome.rets[0].to_vec::<f32>(), Some(vec![3.0, -4.0]));
        // The host rejects a second file with the same handler name, and the library reports that.
        let said = load(test, path, &format!("{name}_again"));
        assert!(
            said.contains("registered on load:")
                && said.contains(name)
                && said.contains("another handler is registered"),
            "{said:?}"
        );
    }
    if languages
        .iter()
        .any(|(name, _)| *name == "doubled_on_load_c")
    {
        assert!(runtime.find("doubled_again_c", "cpu").is_ok());
    }
    // A library that does not request registration is not registered.
    let plain = rust_examples().join("librms_norm.so");
    assert_eq!(load(test, &plain, "plain"), "");
    assert!(runtime.find("rms_norm", "cpu").is_err());
    std::mem::forget(one);
}
