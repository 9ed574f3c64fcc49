//! Tests libraries that do not build although each line is valid. The errors explain the remedy.

use std::path::Path;
use std::process::{Command, Output};
use xla_ffi_testing::{compiler::cpp_compilers, once};

/// Runs cargo in the folder of these tests, where the dependencies are already available.
fn cargo(task: &str, rest: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([task, "--offline"])
        .args(rest)
        .arg("--target-dir")
        .arg(xla_ffi_testing::target_folder())
        .output()
        .expect("cargo runs this test")
}

#[test]
fn panic_abort_is_refused_when_the_library_is_compiled() {
    let check = |panic: &str| {
        let panic = format!("profile.dev.panic = \"{panic}\"");
        let library = ["-p", "xla-ffi-examples", "--example", "operands"];
        cargo("check", &[&library[..], &["--config", &panic]].concat())
    };
    let refused = check("abort");
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    let expected =
        "a panic in a handler must not take the host down: build with panic = \"unwind\"";
    assert!(told.contains(expected), "{told}");
    let accepted = check("unwind");
    let told = String::from_utf8_lossy(&accepted.stderr);
    assert!(accepted.status.success(), "{told}");
}

/// The compiler knows ranks only during code generation, so the error appears when the library is built.
#[test]
fn a_shape_of_any_rank_is_refused_when_the_library_is_built() {
    let fixture = ["-p", "xla-ffi-fixtures", "--example", "derivatives"];
    // Errors of optimized builds do not contain the line number.
    let refused = cargo(
        "build",
        &[&fixture[..], &["--features", "refused"]].concat(),
    );
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    for expected in [
        "`shape` needs a fixed rank: `Buffer<T, 2>`",
        "usize::MAX>::shape",
        "derivatives.rs:11:13",
    ] {
        assert!(told.contains(expected), "{expected} is not in\n{told}");
    }
}

/// The first lines of every C++ source in this file.
const HEAD: &str = "#include \"xla/ffi/api/ffi.h\"\nnamespace ffi = xla::ffi;\n\
    using B = ffi::BufferR1<ffi::F32>; using N = ffi::ResultBufferR0<ffi::S64>;\n";

/// Compiles a source with each compiler, and returns whether that succeeded and the compiler's messages.
fn compile(test: &str, flags: &[&str], text: &str) -> Vec<(bool, String)> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("refused_builds");
    std::fs::create_dir_all(&folder).expect("the target folder");
    let try_one = |compiler: &&str| {
        let mut all: Vec<String> = vec!["-std=c++17".to_owned()];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        all.push(format!("-I{}", env!("SDK_INCLUDE_DIR")));
        let head = once::precompiled(compiler, &all, HEAD, &[Path::new(env!("SDK_INCLUDE_DIR"))]);
        let source = folder.join(format!("{test}.cc"));
        std::fs::write(&source, text).expect("the target folder");
        let mut command = Command::new(compiler);
        command.args(all).args(head.expect("the head compiles"));
        let output = command.arg("-fsyntax-only").arg(&source).output();
        let output = output.expect("the compiler runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), told)
    };
    cpp_compilers(test).iter().map(try_one).collect()
}

/// An ErrorOr converts to bool only explicitly, and never to a number. Otherwise, a forgotten `*` would yield 1.
#[test]
fn error_or_does_not_convert_to_a_number() {
    let test = "error_or_does_not_convert_to_a_number";
    for (good, body) in [
        (true, "bool ok = d.get<float>(\"by\"); return ok;"),
        (
            true,
            "auto a = d.get<float>(\"by\"); return a && !d.get<int32_t>(\"n\");",
        ),
        (
            true,
            "if (auto a = d.get<float>(\"by\")) return *a > 1; return false;",
        ),
        (
            true,
            "auto a = d.get<float>(\"by\"); return a == false || true != a || a != a.has_value();",
        ),
        (
            true,
            "return ffi::Expected<int, std::string>(7) || std::is_convertible_v<ffi::ErrorOr<B>, bool>;",
        ),
        (false, "float by = d.get<float>(\"by\"); return by > 1;"),
        (
            false,
            "return d.get<int64_t>(\"n\") == d.get<int64_t>(\"m\");",
        ),
    ] {
        let text = format!("static bool F(ffi::Dictionary d) {{ {body} }}\nauto* f = &F;\n");
        for (taken, told) in compile(test, &["-w"], &text) {
            assert_eq!(taken, good, "{body}\n{told}");
        }
    }
}

/// Packed elements do not have a typed pointer, because a loop over the pointer would overrun the heap.
#[test]
fn packed_elements_have_no_pointer() {
    let test = "packed_elements_have_no_pointer";
    for (good, dtype, body) in [
        (true, "U4", "return x.untyped_data() != y->untyped_data();"),
        (false, "U4", "return y->typed_data()[0] == 7;"),
        (
            false,
            "F4E2M1FN",
            "auto* to = y->typed_data(); return to[0] == 7;",
        ),
    ] {
        let text = format!(
            "static bool F(ffi::Buffer<ffi::{dtype}> x, ffi::ResultBuffer<ffi::{dtype}> y) {{ {body} }}\n\
             auto* f = &F;\n"
        );
        for (taken, told) in compile(test, &["-w"], &text) {
            assert_eq!(taken, good, "{dtype} {body}\n{told}");
            let first = told.lines().find(|line| line.contains("error: "));
            let words = "take the buffer's packed_data()";
            let is_told = good || first.is_some_and(|line| line.contains(words));
            assert!(is_told, "{dtype} {body}\n{told}");
        }
    }
    // Elements that do not share bytes are not packed.
    let text = "auto f(ffi::Buffer<ffi::S8> x) { return x.packed_data(); }\n";
    for (taken, told) in compile(test, &["-w"], text) {
        assert!(!taken && told.contains("typed_data() gives them"), "{told}");
    }
}

/// Compiles handlers, each from a function and a binding, and compares the first error with the expected error, if any.
fn handlers(test: &str, rows: &[(&str, &str, Option<&str>)]) {
    for (function, binding, refused) in rows {
        let text = format!(
            "{function}\nXLA_FFI_DEFINE_HANDLER_SYMBOL(f, F, ffi::Ffi::Bind(){binding});\n\
             static auto g = (ffi::Ffi::Bind(){binding}).To(F);\n"
        );
        for (taken, told) in compile(test, &["-w"], &text) {
            assert_eq!(taken, refused.is_none(), "{function} {binding}\n{told}");
            let first = told.lines().find(|line| line.contains("error: "));
            let is_told =
                refused.is_none_or(|words| first.is_some_and(|line| line.contains(words)));
            assert!(is_told, "{function} {binding}\n{told}");
        }
    }
}

/// A Result is constructed from a buffer, so the function and the binding must declare the same operands as results.
#[test]
fn arguments_are_not_results() {
    let written = Some("the function would write an argument");
    let (one, two) = (".Arg<B>()", ".Arg<B>().Ret<B>()");
    handlers(
        "arguments_are_not_results",
        &[
            ("ffi::Error F(B, ffi::Result<B>);", two, None),
            (
                "ffi::Error F(const B&, ffi::Result<B>&&) noexcept;",
                two,
                None,
            ),
            (
                "const auto F = [](auto, auto y) { *y; return ffi::Error(); };",
                two,
                None,
            ),
            (
                "const auto F = [](auto x, ffi::Result<B> y) { *y = x; return ffi::Error(); };",
                two,
                None,
            ),
            (
                "struct { ffi::Error operator()(B x, ffi::Result<B> y) const { *y = x; return {}; }\n\
                ffi::Error operator()(ffi::AnyBuffer, ffi::Result<B>) const { return {}; } } F;",
                two,
                None,
            ),
            (
                "ffi::Error F(std::optional<B>, std::optional<ffi::Result<B>>);",
                ".OptionalArg<B>().OptionalRet<B>()",
                None,
            ),
            ("ffi::Error F(ffi::Result<B>);", one, written),
            (
                "const auto F = [](ffi::Result<B>) { return ffi::Error(); };",
                one,
                written,
            ),
            (
                "ffi::Error F(std::optional<ffi::Result<B>>);",
                ".OptionalArg<B>()",
                written,
            ),
            (
                "ffi::Error F(bool);",
                ".Attr<ffi::Pointer<int>>(\"p\")",
                Some("the function takes a number where the binding gives a pointer"),
            ),
            (
                "ffi::Error F(const int*);",
                ".Attr<ffi::Pointer<int>>(\"p\")",
                None,
            ),
        ],
    );
}

/// The compiler warns if the result of a check is ignored, or if an error is created but not returned.
#[test]
fn ignored_errors_are_a_warning() {
    let test = "ignored_errors_are_a_warning";
    let warned = "-Wunused-result";
    for (words, body) in [
        ("", "return ffi::Verify(\"y\", y, p);"),
        ("", "return ffi::Error::Success();"),
        (warned, "ffi::Verify(\"y\", y, p); return {};"),
        (warned, "ffi::Match(\"y\", y, p); return {};"),
        (
            warned,
            "ffi::Match(\"a\", a, ffi::match::Buffer<ffi::F32, 1>()); return {};",
        ),
        (warned, "ffi::Error::InvalidArgument(\"lost\"); return {};"),
    ] {
        let text = format!(
            "static ffi::Error F(B x, ffi::Result<B> y, ffi::AnyBuffer a) {{\n\
             static_cast<void>(a); auto p = ffi::match::Buffer().WithShapeOf(x); static_cast<void>(p); static_cast<void>(y);\n\
             {body} }}\nauto* f = &F;\n"
        );
        for (taken, told) in compile(test, &["-Wall", "-Wextra"], &text) {
            assert!(taken, "{body}\n{told}");
            assert_eq!(told.contains(warned), !words.is_empty(), "{body}\n{told}");
        }
    }
}
