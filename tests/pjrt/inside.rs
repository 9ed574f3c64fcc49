//! A plugin asks a handler for its metadata inside of the call that registers it: a stand-in that does.

use std::path::{Path, PathBuf};
use xla_ffi_programs::pjrt::{Plugin, unguarded};
use xla_ffi_runtime::Runtime;
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Handler};
use xla_ffi_testing::compiler::shared_library;
use xla_ffi_testing::examples::rust_examples;
use xla_ffi_testing::{root, skip};

unsafe extern "C" fn silent(_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    std::ptr::null_mut()
}

/// The conformance libraries of the languages for which there is a compiler.
fn libraries(test: &str) -> Vec<PathBuf> {
    let mut found = vec![rust_examples().join("libconformance.so")];
    for (file, compiler) in [
        ("libconformance.so", option_env!("C_COMPILER")),
        ("libconformance_cpp.so", option_env!("CPP_COMPILER")),
    ] {
        if compiler.is_some() {
            found.push(Path::new(env!("C_EXAMPLES_DIR")).join(file));
        } else {
            skip(test, "no compiler");
        }
    }
    found
}

#[test]
fn handlers_are_asked_inside_of_their_registration() {
    let test = "handlers_are_asked_inside_of_their_registration";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let source = root().join("programs/tests/plugins/plugin.c");
    let flags = [
        "-DASKS".to_owned(),
        format!("-I{}", env!("SDK_INCLUDE_DIR")),
    ];
    let Some(path) = shared_library(&folder, test, &source, "asking", &flags) else {
        return;
    };
    let client = Plugin::load(&path).unwrap().client().unwrap();
    // SAFETY: it is loaded already.
    let stand_in = unsafe { libloading::Library::new(&path) }.unwrap();
    let count = |name: &str| {
        // SAFETY: the type that it is defined with.
        let count = unsafe { stand_in.get::<extern "C" fn() -> i32>(name.as_bytes()) };
        count.unwrap()()
    };
    for (index, path) in libraries(test).iter().enumerate() {
        let index = i32::try_from(index).unwrap();
        let library = Runtime::default().open(path).unwrap();
        for symbol in ["scale", "counter_instantiate"] {
            let address = library.symbol(symbol).unwrap();
            // SAFETY: the symbols of these names are handlers.
            let handler =
                unsafe { std::mem::transmute::<*mut std::ffi::c_void, XLA_FFI_Handler>(address) };
            // SAFETY: a handler of a library that stays loaded.
            unsafe { unguarded::register(&client, symbol, handler) }
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        assert_eq!(
            count("answers_inside"),
            2 * (index + 1),
            "{}",
            path.display()
        );
        // The state's type is registered there, with the host that asks.
        assert_eq!(count("types_inside"), index + 1, "{}", path.display());
    }
    let answered = count("answers_inside");
    // SAFETY: a function of this program, called with frames alone.
    let error = unsafe { unguarded::register(&client, "silent", silent) }.unwrap_err();
    assert!(error.message().contains("API version 0.0"), "{error}");
    // So is the handler of `xla_ffi_programs::pjrt` itself, which holds no lock then; the stand-in compiles nothing.
    // SAFETY: as above.
    let bundle = unsafe { xla_ffi_runtime::Bundle::execute(silent) };
    let error = client.register("h", &bundle).unwrap_err();
    assert!(error.message().contains("cannot compile here"), "{error}");
    assert_eq!(count("answers_inside"), answered + 1);
}
