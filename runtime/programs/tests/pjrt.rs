//! Tests the PJRT client with invalid and old test plugins in C. Also tests handlers with XLA's C++ headers on XLA's
//! CPU backend.

use std::path::{Path, PathBuf};
use xla_ffi_programs::pjrt::{Client, Plugin};
use xla_ffi_runtime::{
    Attributes, Bundle, DType, Error, ErrorCode, Hazard, Revision, Runtime, Shape, Stage, Tensor,
};
use xla_ffi_testing::compiler::{library_of_text, shared_library};
use xla_ffi_testing::{headers, plugin, root, skip};

/// Builds a test library. If no compiler is available, skips the test and returns `None`.
fn build(test: &str, source: &str, name: &str, flags: &[String]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    shared_library(&folder, test, &root().join(source), name, flags)
}

/// Builds a test plugin with the defect that the compiler flags select.
fn stand_in(test: &str, flags: &str) -> Option<PathBuf> {
    let name = format!("plugin{}", flags.replace(['-', ' ', '='], "_"));
    let flags: Vec<_> = flags.split_whitespace().map(str::to_owned).collect();
    build(
        test,
        "runtime/programs/tests/plugins/plugin.c",
        &name,
        &flags,
    )
}

/// Returns the error of loading a test plugin or of creating its client.
fn refusal(test: &str, flags: &str) -> Option<Error> {
    let plugin = match Plugin::load(stand_in(test, flags)?) {
        Ok(plugin) => plugin,
        Err(error) => return Some(error),
    };
    Some(plugin.client().expect_err("no client"))
}

#[test]
fn plugins_that_are_refused() {
    let test = "plugins_that_are_refused";
    for (flags, code, text) in [
        (
            "-DNO_ENTRY",
            ErrorCode::InvalidArgument,
            "exports no GetPjrtApi",
        ),
        (
            "-DNULL_TABLE",
            ErrorCode::FailedPrecondition,
            "null pointer",
        ),
        ("-DMINOR=54", ErrorCode::FailedPrecondition, "0.54; 0.57"),
        ("-DMAJOR=1", ErrorCode::FailedPrecondition, "1.81; 0.57"),
        (
            "-DTABLE_SIZE=96",
            ErrorCode::Unimplemented,
            "(PJRT 0.81) has no function PJRT_Client_Create",
        ),
        (
            "-DFAILING_INITIALIZE",
            ErrorCode::ResourceExhausted,
            "no room today",
        ),
        (
            "-DFAILING_CLIENT",
            ErrorCode::ResourceExhausted,
            "no room today",
        ),
        (
            "-DNO_DEVICES",
            ErrorCode::FailedPrecondition,
            "no device of platform cpu",
        ),
    ] {
        let Some(error) = refusal(test, flags) else {
            return;
        };
        assert_eq!(error.code(), code, "{flags}: {error}");
        assert!(error.message().contains(text), "{flags}: {error}");
        assert!(error.message().contains("PJRT plugin "), "{flags}: {error}");
    }
    for (path, code) in [
        ("no/such/plugin.so", ErrorCode::NotFound),
        (env!("CARGO_MANIFEST_DIR"), ErrorCode::InvalidArgument),
        (
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
            ErrorCode::InvalidArgument,
        ),
    ] {
        let error = Plugin::load(path).expect_err("no plugin");
        assert_eq!(error.code(), code, "{error}");
    }
}

/// The source of a test plugin whose only function throws an exception.
const THROWING: &str = r#"
#include <cstddef>
#include <stdexcept>

static void* Throw(void*) { throw std::runtime_error("thrown on purpose"); }

static struct {
  std::size_t size;
  void* extensions;
  std::size_t version_size;
  void* version_extensions;
  int major, minor;
  void* (*functions[4])(void*);
} table = {72, nullptr, 24, nullptr, 0, 81, {nullptr, nullptr, nullptr, Throw}};

extern "C" __attribute__((visibility("default"))) const void* GetPjrtApi() { return &table; }
"#;

/// Checks that a C++ exception of a plugin does not end the program.
#[test]
fn a_plugin_that_throws() {
    let test = "a_plugin_that_throws";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let Some(path) = library_of_text(&folder, "throwing", "c++", THROWING, &[]) else {
        return skip(test, "no C++ compiler");
    };
    if !xla_ffi_runtime::CONTAINS_CXX_EXCEPTIONS {
        skip(test, "the runtime was built without a C++ compiler");
        return;
    }
    let error = Plugin::load(path).expect_err("it throws");
    assert!(error.has(Hazard::Unwound), "{error}");
    assert!(error.message().contains("thrown on purpose"), "{error}");
    assert!(
        error.message().contains("PJRT_Plugin_Initialize"),
        "{error}"
    );
}

unsafe extern "C" fn nothing(
    _frame: *mut xla_ffi_sys::XLA_FFI_CallFrame,
) -> *mut xla_ffi_sys::XLA_FFI_Error {
    std::ptr::null_mut()
}

fn any_bundle() -> Bundle {
    // SAFETY: the function is a handler of this program, and the test plugins never call it.
    unsafe { Bundle::execute(nothing) }
}

/// Checks FFI extensions that lack some functions, and extensions with smaller or larger arguments.
#[test]
fn extensions_of_all_ages() {
    let test = "extensions_of_all_ages";
    let client = |flags: &str| {
        let plugin = Plugin::load(stand_in(test, flags)?).expect("it loads");
        Some(plugin.client().expect("a client"))
    };
    let registered = |client: &Client| client.register("h", &any_bundle()).expect_err("refused");
    let Some(none) = client("-DNO_EXTENSION") else {
        return;
    };
    let error = registered(&none);
    assert_eq!(error.code(), ErrorCode::Unimplemented);
    assert!(error.message().contains("no FFI extension"), "{error}");
    assert!(
        error.message().contains("PJRT plugin ")
            && error.message().contains("libplugin_DNO_EXTENSION.so"),
        "{error}"
    );
    // SAFETY: the type has no objects.
    let error = unsafe { none.register_type("t", 0, Default::default()) }.expect_err("refused");
    assert_eq!(error.code(), ErrorCode::Unimplemented);

    let Some(first) = client("-DEXTENSION_SIZE=40") else {
        return;
    };
    let error = registered(&first);
    assert_eq!(error.code(), ErrorCode::Unimplemented);
    assert!(
        error
            .message()
            .contains("its 40 bytes hold no PJRT_FFI_Register_Handler"),
        "{error}"
    );
    // SAFETY: the type has no objects.
    let id = unsafe { first.register_type("t", 0, Default::default()) };
    assert_eq!(id.unwrap(), 7);

    // The test plugins check the arguments of the registration. Compilation then fails, because the plugins lack a
    // compiler.
    for flags in ["-DREGISTER_SIZE=52", "-DREGISTER_SIZE=60"] {
        let Some(client) = client(flags) else { return };
        let error = registered(&client);
        assert!(
            error.message().contains("cannot compile here"),
            "{flags}: {error}"
        );
    }
    let Some(other) = client("-DREGISTER_SIZE=77") else {
        return;
    };
    let error = registered(&other);
    assert!(error.message().contains("expected 77, got 52"), "{error}");
}

fn f32s(values: &[f32]) -> Tensor {
    Tensor::from_slice([values.len() as i64], values).unwrap()
}

/// Checks handlers with XLA's headers of every revision that the plugin's XLA supports: without state, with state,
/// with user data, asynchronous, and failing. Also checks that the plugin refuses handlers of newer revisions.
#[test]
fn upstreams_headers() {
    let test = "pjrt.upstreams_headers";
    let Some(path) = plugin(test) else { return };
    let Some(headers) = headers::all(test) else {
        return;
    };
    let client = Plugin::load(path).unwrap().client().unwrap();
    let mut ran = 0;
    for headers in headers::one_of_each(headers) {
        let (version, revision) = (&headers.version, headers.revision);
        let flags = [
            format!("-I{}", headers.include.display()),
            format!("-DREVISION={}", revision as u8),
        ];
        let name = format!("handlers-{version}");
        let Some(path) = build("upstream", "runtime/tests/cxx/handlers.cc", &name, &flags) else {
            return;
        };
        let library = Runtime::default().open(path).unwrap();
        let register = |target: &str, stages: &[(Stage, &str)]| {
            let target = format!("{version}.{target}");
            let answer = client.register(&target, &library.bundle(stages).unwrap());
            answer.map(|()| target)
        };
        let scale = match register("scale", &[(Stage::Execute, "scale")]) {
            Ok(scale) => scale,
            Err(error) => {
                assert!(
                    error.message().contains("framework's API version (0.2)"),
                    "{version}: {error}"
                );
                // Version 0.0 is less than XLA's minimum version; versions from 0.3 are greater than its version.
                assert!(
                    revision == Revision::R0 || revision >= Revision::R8,
                    "{version}: {error}"
                );
                continue;
            }
        };
        ran += 1;
        let vector = Shape::new(DType::F32, [2]).unwrap();
        let scalar = Shape::new(DType::S64, []).unwrap();
        let factor = Attributes::parse("{factor = 2.0 : f32}").unwrap();
        let call = client
            .call(&scale)
            .attributes(&factor)
            .arg(f32s(&[1.0, 2.0]));
        let rets = call.ret(vector.clone()).run().unwrap();
        assert_eq!(rets[0].to_vec::<f32>().unwrap(), [2.0, 4.0], "{version}");

        let fail = register("fail", &[(Stage::Execute, "fail")]).unwrap();
        let error = client.call(&fail).arg(f32s(&[1.0])).run().unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (ErrorCode::NotFound, "nothing here"),
            "{version}"
        );

        if revision >= Revision::R4 {
            let run = register("run_id", &[(Stage::Execute, "run_id")]).unwrap();
            let rets = client
                .call(&run)
                .ret(scalar.clone())
                .launch_id(5)
                .run()
                .unwrap();
            assert_eq!(rets[0].to_vec::<i64>().unwrap(), [5], "{version}");
        }
        if revision < Revision::R7 {
            // The plugin's XLA uses a different layout for the state arguments of version 0.1.
            continue;
        }
        let info = Some("counter_info");
        client
            .register_type_of(
                &library,
                &format!("{version}.Counter"),
                "_ZN7Counter2idE",
                info,
            )
            .unwrap();
        let counter = register(
            "counter",
            &[
                (Stage::Execute, "counter_execute"),
                (Stage::Instantiate, "counter_instantiate"),
            ],
        )
        .unwrap();
        let start = Attributes::parse("{start = 40}").unwrap();
        let call = client.call(&counter).attributes(&start).ret(scalar.clone());
        let program = client
            .compile(call.program().unwrap().to_stablehlo().unwrap())
            .unwrap();
        for expected in 40..45 {
            let rets = program.run(&[]).unwrap();
            assert_eq!(rets[0].to_vec::<i64>().unwrap(), [expected], "{version}");
        }
        let greeting = format!("{version}.Greeting");
        let id = client
            .register_type_of(&library, &greeting, "_ZN8Greeting2idE", None)
            .unwrap();
        let greet = register("greet", &[(Stage::Execute, "greet")]).unwrap();
        let number = 123_i64;
        // SAFETY: the library's type is a number, and the object outlives the call.
        let call = unsafe {
            client
                .call(&greet)
                .user_data(id, (&raw const number).cast())
        };
        let rets = call.ret(scalar.clone()).run().unwrap();
        assert_eq!(rets[0].to_vec::<i64>().unwrap(), [123], "{version}");
    }
    if ran == 0 {
        skip(test, "there are no headers that this XLA takes");
    }
}
