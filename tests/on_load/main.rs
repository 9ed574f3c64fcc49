//! Libraries in Rust, C and C++ that register themselves when they are loaded, with a small host that exports the function for its table.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use xla_ffi_runtime::{Attributes, Revision, Runtime, Shape, Tensor};
use xla_ffi_sys::XLA_FFI_Api;
use xla_ffi_testing::compiler::shared_library;
use xla_ffi_testing::{rust_examples, skip};

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

/// The libraries, by the name of their handler. A language without a compiler is told.
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

/// Loads a library under a name of its own, so that it is loaded once more, and says what stood on stderr.
fn load(test: &str, path: &Path, copy: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let own = folder.join(format!("lib{copy}.so"));
    std::fs::copy(path, &own).unwrap();
    let log = std::fs::File::create(folder.join("stderr")).unwrap();
    // SAFETY: a descriptor of this process.
    let kept = unsafe { libc::dup(2) };
    // SAFETY: as above, and an open file.
    unsafe { libc::dup2(log.as_raw_fd(), 2) };
    // SAFETY: a library of ours, whose constructor registers it.
    let library = unsafe { libloading::Library::new(own) };
    // SAFETY: what was kept above.
    unsafe { libc::dup2(kept, 2) };
    // SAFETY: as above, closed once.
    unsafe { libc::close(kept) };
    // Closed at once: one that a host has stays where it is.
    drop(library.expect("the library loads"));
    std::fs::read_to_string(folder.join("stderr")).unwrap()
}

/// One test, for what the process has loaded is what is tested.
#[test]
fn a_loaded_library_is_registered() {
    let test = "a_loaded_library_is_registered";
    let runtime = Runtime::new(Revision::R7);
    let languages = languages(test);
    for (name, path) in &languages {
        // Nobody there: nothing happens.
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
        // A second file with the same name is refused by the host, which is told.
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
    // A library that does not ask for it is not registered.
    let plain = rust_examples().join("librms_norm.so");
    assert_eq!(load(test, &plain, "plain"), "");
    assert!(runtime.find("rms_norm", "cpu").is_err());
    std::mem::forget(one);
}
