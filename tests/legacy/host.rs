//! Tests the original custom calls in C, C++ and Rust, with XLA's documented example in every convention.
//!
//! The tests also cover the same functions adapted to XLA FFI on every revision, and the messages of failures.

use crate::{Example, languages};
use xla_ffi_runtime::legacy::{ApiVersion, Invocation, Status, TupleForm};
use xla_ffi_runtime::{ErrorCode, Hazard, Revision, Runtime, Stage, Tree};
use xla_ffi_testing::skip;

#[test]
fn the_documents_example_in_every_convention() {
    for (language, library) in languages("the_documents_example_in_every_convention") {
        let runtime = Runtime::default();
        let library = runtime.open(&library).expect("it loads");
        let count = library
            .register_legacy()
            .expect("its targets are registered");
        assert!(count >= 4, "{language}: {count} targets");
        for (name, version) in [
            ("tiled_add_cpu", ApiVersion::Original),
            ("tiled_add_status", ApiVersion::StatusReturning),
            ("tiled_add_unified", ApiVersion::StatusReturningUnified),
        ] {
            let target = runtime.find_legacy(name, "Host", version);
            let target = target.unwrap_or_else(|error| panic!("{language}: {error}"));
            let mut example = Example::new(1.0);
            example.run(&target, b"", None).expect(name);
            example.check(0.0, &format!("{language} {name}"));
        }
        let target = runtime
            .find_legacy(
                "tiled_add_unified",
                "cpu",
                ApiVersion::StatusReturningUnified,
            )
            .expect("registered");
        let mut example = Example::new(1.0);
        example.run(&target, b"12", None).expect("it runs");
        example.check(12.0, language);
        // Each language registers the function with a different version: C's macro takes a signature, C++ uses the
        // function's type, and Rust its declaration.
        let error = runtime.find_legacy("tiled_add_cpu", "Host", ApiVersion::StatusReturning);
        let error = error.expect_err("another version");
        assert!(
            error.message().contains("API_VERSION_ORIGINAL"),
            "{language}: {error}"
        );
    }
}

#[test]
fn failures_arrive_whole() {
    for (language, library) in languages("failures_arrive_whole") {
        let runtime = Runtime::default();
        let library = runtime.open(&library).expect("it loads");
        library
            .register_legacy()
            .expect("its targets are registered");
        let find = |name, version| runtime.find_legacy(name, "Host", version).expect(name);
        let status = find("tiled_add_status", ApiVersion::StatusReturning);
        let error = Example::new(-1.0)
            .run(&status, b"", None)
            .expect_err("it fails");
        assert!(
            error.message().ends_with("B[0] is negative"),
            "{language}: {error}"
        );
        assert!(error.is_from_handler() && error.code() == ErrorCode::Internal);
        let unified = find("tiled_add_unified", ApiVersion::StatusReturningUnified);
        let long = [&b"no\0number \xff\xc3\xa4"[..], &[b'x'; 5000]].concat();
        let error = Example::new(1.0)
            .run(&unified, &long, None)
            .expect_err("it fails");
        let whole = format!("no\0number \\xffä{}", "x".repeat(5000));
        assert_eq!(error.message(), whole, "{language}");
        if language == "C++" {
            let error = Example::new(f32::INFINITY)
                .run(&status, b"", None)
                .expect_err("it throws");
            assert!(error.has(Hazard::Unwound), "{error}");
            assert!(error.message().contains("B[0] is too large"), "{error}");
        }
    }
}

#[test]
fn tuples_by_their_roots() {
    for (language, library) in languages("tuples_by_their_roots") {
        let runtime = Runtime::default();
        let library = runtime.open(&library).expect("it loads");
        library
            .register_legacy()
            .expect("its targets are registered");
        let target = runtime.find_legacy("tiled_add_tuples", "Host", ApiVersion::Original);
        let target = target.expect("registered");
        let mut example = Example::new(1.0);
        let [b, c, a] = example.pointers();
        let mut more = vec![0.0_f32; 2048];
        let operands = [Tree::tuple([Tree::Leaf(b), Tree::Leaf(c)])];
        let result = Tree::tuple([
            Tree::Leaf(a),
            Tree::tuple([Tree::Leaf(more.as_mut_ptr().cast())]),
        ]);
        let call = Invocation::new(&target, &operands, &result).form(TupleForm::CpuRoots);
        // SAFETY: the buffers have the types and sizes that the target expects.
        unsafe { call.run() }.expect("it runs");
        example.check(0.0, language);
        assert!(
            more.iter()
                .zip(&example.a)
                .all(|(more, a)| *more == a + 1.0)
        );
    }
}

#[test]
fn tuples_by_their_leaves() {
    for (language, library) in languages("tuples_by_their_leaves") {
        let runtime = Runtime::default();
        let library = runtime.open(&library).expect("it loads");
        library
            .register_legacy()
            .expect("its targets are registered");
        for (name, is_nested) in [("tiled_add_two", false), ("tiled_add_nested", true)] {
            let target = runtime.find_legacy(name, "Host", ApiVersion::Original);
            let target = target.expect("registered");
            let mut example = Example::new(1.0);
            let [b, c, a] = example.pointers();
            let mut more = vec![0.0_f32; 2048];
            let operands = [Tree::tuple([Tree::Leaf(b), Tree::Leaf(c)])];
            let second = Tree::Leaf(more.as_mut_ptr().cast());
            let second = match is_nested {
                true => Tree::tuple([second]),
                false => second,
            };
            let result = Tree::tuple([Tree::Leaf(a), second]);
            // SAFETY: the buffers have the types and sizes that the target expects.
            unsafe { Invocation::new(&target, &operands, &result).run() }.expect("it runs");
            let context = format!("{language} {name}");
            example.check(0.0, &context);
            assert!(
                more.iter()
                    .zip(&example.a)
                    .all(|(more, a)| *more == a + 1.0),
                "{context}"
            );
        }
    }
}

#[test]
fn adapted_functions_on_every_revision() {
    for (language, library) in languages("adapted_functions_on_every_revision") {
        for revision in Revision::ALL {
            let runtime = Runtime::new(revision);
            let library = runtime.open(&library).expect("it loads");
            let call = |symbol: &str, attributes: &str, first: f32, rets: &[&str]| {
                let handler = library.handler(symbol, &[(Stage::Execute, symbol)])?;
                Example::new(first).call(&handler, attributes, rets)
            };
            let one = &["f32[2048]"][..];
            let sum = |more: f32| Example::new(1.0).expected(more);
            let context = format!("{language} {revision}");
            for (symbol, attributes, more) in [
                ("tiled_add_cpu_ffi", "{}", 0.0),
                ("tiled_add_status_ffi", "{}", 0.0),
                ("tiled_add_unified_ffi", "{opaque = \"7\"}", 7.0),
                (
                    "tiled_add_unified_ffi",
                    "{opaque = array<i8: 49, 50>}",
                    12.0,
                ),
                ("tiled_add_checked_ffi", "{}", 0.0),
            ] {
                let got = call(symbol, attributes, 1.0, one);
                let got = got.unwrap_or_else(|error| panic!("{context} {symbol}: {error}"));
                assert_eq!(got[0], sum(more), "{context} {symbol}");
            }
            let got = call(
                "tiled_add_tuples_ffi",
                "{}",
                1.0,
                &["f32[2048]", "f32[2048]"],
            );
            let got = got.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(got[0], sum(0.0), "{context}");
            assert_eq!(got[1], sum(1.0), "{context}");
            let fails =
                |symbol: &str, attributes: &str, first: f32, rets: &[&str], parts: &[&str]| {
                    let error = call(symbol, attributes, first, rets).expect_err("it fails");
                    for part in parts {
                        assert!(
                            error.message().contains(part),
                            "{context} {symbol}: {error}"
                        );
                    }
                };
            fails(
                "tiled_add_status_ffi",
                "{}",
                -1.0,
                one,
                &["B[0] is negative"],
            );
            // NULs and bytes that are not UTF-8 are escaped, because XLA ends a text at a NUL, and Python fails on
            // invalid UTF-8.
            let opaque = "{opaque = array<i8: 110, 0, 111, -1, 33>}";
            let error = call("tiled_add_unified_ffi", opaque, 1.0, one).expect_err("it fails");
            assert!(
                ["n\\x00o\\xff!", "n\\0o\\xff!"]
                    .iter()
                    .any(|text| error.message().ends_with(text)),
                "{context}: {error}"
            );
            fails("tiled_add_unified_ffi", "{}", 1.0, one, &["opaque"]);
            fails(
                "tiled_add_unified_ffi",
                "{opaque = \"1\", other = 1 : i64}",
                1.0,
                one,
                &["other"],
            );
            fails(
                "tiled_add_tuples_ffi",
                "{}",
                1.0,
                one,
                &["(_, _) -> (_, (_))"],
            );
            fails(
                "tiled_add_checked_ffi",
                "{}",
                1.0,
                &["f32[2047]"],
                &["2048", "2047"],
            );
            if language == "C++" {
                fails(
                    "tiled_add_status_ffi",
                    "{}",
                    f32::INFINITY,
                    one,
                    &["B[0] is too large"],
                );
            }
            std::mem::forget(runtime);
        }
    }
}

#[test]
fn foreign_statuses_are_not_modified() {
    use std::ffi::c_void;
    type Target = unsafe extern "C" fn(*mut c_void, *mut *const c_void, *mut c_void);
    for (language, library) in languages("foreign_statuses_are_not_modified") {
        let runtime = Runtime::default();
        let library = runtime.open(&library).expect("it loads");
        let address = library.symbol("tiled_add_status").expect("exported");
        // SAFETY: this is the type of a status-returning target.
        let target = unsafe { std::mem::transmute::<*mut c_void, Target>(address) };
        let mut example = Example::new(-1.0);
        let [b, c, a] = example.pointers();
        let mut ins = [b.cast_const(), c.cast_const()];
        // None of the addresses below is a status of this runtime. The first address is a separate page, at a multiple
        // of our statuses' alignment.
        let layout = std::alloc::Layout::from_size_align(4096, 65536).expect("a layout");
        // SAFETY: the size is not 0.
        let aligned = unsafe { std::alloc::alloc_zeroed(layout) };
        let mut plain = [7_u8; 64];
        for status in [
            aligned,
            plain.as_mut_ptr(),
            std::ptr::null_mut(),
            0x10000 as *mut u8,
        ] {
            // SAFETY: the operands are as the target expects, and the target must not access the status.
            unsafe { target(a, ins.as_mut_ptr(), status.cast()) };
        }
        // SAFETY: the memory is allocated above with this size.
        let bytes = unsafe { std::slice::from_raw_parts(aligned, 4096) };
        assert!(bytes.iter().all(|byte| *byte == 0), "{language}");
        assert_eq!(plain, [7; 64], "{language}");
        // The same library writes its error to a status that belongs to this runtime.
        let status = Status::new();
        // SAFETY: the operands are as the target expects, and the status is valid.
        unsafe { target(a, ins.as_mut_ptr(), status.as_ptr().cast()) };
        let message = status.finish().expect("a failure");
        assert!(message.ends_with(b"B[0] is negative"), "{language}");
        // SAFETY: the memory is allocated above with this layout.
        unsafe { std::alloc::dealloc(aligned, layout) };
    }
}

/// A host that exports the status functions, as older XLAs do. The host loads a library and calls a target with its own
/// status.
const HOST: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void target(void* out, const void** in, void* status);

/* A status that does not belong to the SDK, at a multiple of the alignment of the SDK's statuses. */
static _Alignas(65536) int own[16384] = {7};

void XlaCustomCallStatusSetSuccess(int* status) { printf("%d: success\n", *status); }
void XlaCustomCallStatusSetFailure(int* status, const char* message, size_t length) {
  printf("%d: %.*s\n", *status, (int)length, message);
}

int main(int count, char** arguments) {
  static float b[128] = {-1}, c[2048], a[2048];
  const void* in[2] = {b, c};
  void* library = dlopen(arguments[count - 1], RTLD_NOW | RTLD_LOCAL);
  target* call = library != NULL ? (target*)dlsym(library, "tiled_add_status") : NULL;
  int plain = 8;
  if (call == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  call(a, in, own);
  call(a, in, &plain);
  fflush(stdout);
  _Exit(0);
}
"#;

#[test]
fn status_functions_of_the_host_are_called() {
    let test = "status_functions_of_the_host_are_called";
    let host = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("status-host");
    let source = host.with_extension("c");
    std::fs::write(&source, HOST).expect("the target folder");
    let built = std::process::Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-rdynamic"])
        .arg(&source)
        .args(["-ldl", "-o"])
        .arg(&host)
        .output();
    let Ok(built) = built else {
        skip(test, "no cc");
        return;
    };
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    for (language, library) in languages(test) {
        let done = std::process::Command::new(&host)
            .arg(&library)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&done.stdout);
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines.len(), 2, "{language}: {said}");
        for (line, status) in lines.iter().zip(["7: ", "8: "]) {
            assert!(line.starts_with(status), "{language}: {said}");
            assert!(line.ends_with("B[0] is negative"), "{language}: {said}");
        }
        assert!(done.stderr.is_empty(), "{language}: told twice");
        let runtime = Runtime::default();
        let library = runtime.open(&library).expect("it loads");
        assert!(library.symbol("tiled_add_status").is_ok(), "{language}");
        for name in [
            "XlaCustomCallStatusSetFailure",
            "XlaCustomCallStatusSetSuccess",
        ] {
            assert!(library.symbol(name).is_err(), "{language} exports {name}");
        }
    }
}
