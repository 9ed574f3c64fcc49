//! Tests mistakes that the C++ headers report at compile time.

use crate::Headers;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::{compiler::cpp_compilers, once};

fn out(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp_defects");
    std::fs::create_dir_all(&folder).expect("the target folder");
    folder.join(name)
}

const FLAGS: [&str; 3] = ["-std=c++17", "-w", "-pthread"];

/// Compiles a text, and links the result unless `flags` prevent linking.
fn compile(compiler: &str, headers: &Headers, name: &str, text: &str, flags: &[&str]) -> Output {
    let source = out(&format!("{name}.cc"));
    std::fs::write(&source, text).expect("the target folder");
    Command::new(compiler)
        .args(FLAGS)
        .args(flags)
        .args(headers.flags())
        .arg(&source)
        .output()
        .expect("the compiler runs")
}

/// Types and handlers that precede each snippet.
const HEAD: &str = r#"
#include "xla/ffi/api/ffi.h"
#include "xla/ffi/api/record_api.h"
#include "xla/ffi/api/collectives_api.h"
namespace ffi = xla::ffi;
enum class Mode : int32_t { kFast = 0 };
struct Range { int64_t lo, hi; };
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(Mode);
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Range, ::xla::ffi::StructMember<int64_t>("lo"),
                                      ::xla::ffi::StructMember<int64_t>("hi"));
"#;

/// Malformed contracts do not compile, nor do contracts whose operand count differs from the binding's.
#[test]
fn mismatched_contracts_do_not_compile() {
    let test = "mismatched_contracts_do_not_compile";
    let Some(compiler) = cpp_compilers(test).first().copied() else {
        return;
    };
    let mut flags: Vec<String> = FLAGS.map(str::to_owned).into();
    flags.extend(Headers::Ours.flags());
    let head = once::precompiled(compiler, &flags, HEAD, &[Headers::Ours.folder()]);
    let head = head.unwrap_or_else(|error| panic!("{error}"));
    let mut flags = vec!["-fsyntax-only"];
    flags.extend(head.iter().map(String::as_str));
    for (index, (contract, told)) in [
        ("n -> n", None),
        ("n n", Some("is not a contract such as")),
        ("n/0 -> n", Some("is not a contract such as")),
        ("n, n -> n", Some("another number of entries")),
        ("n -> n, n", Some("another number of entries")),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!(
            "static ffi::Error F(ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) {{ return {{}}; }}\n\
             XLA_FFI_DEFINE_HANDLER_SYMBOL(f, F, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>()\n\
             .Ret<ffi::AnyBuffer>().Shape(XLA_FFI_SHAPE(\"{contract}\")));"
        );
        let name = format!("contract_{index}");
        let output = compile(compiler, &Headers::Ours, &name, &text, &flags);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.success(),
            told.is_none(),
            "{contract}: {error}"
        );
        assert!(
            error.contains(told.unwrap_or_default()),
            "{contract}: {error}"
        );
    }
}

/// For an unsupported signature, the compiler's first error is a readable message.
#[test]
fn unsupported_signatures_are_reported_first() {
    let test = "unsupported_signatures_are_reported_first";
    let returned = "a handler does not return this";
    let argument = "unsupported argument type";
    let result = "unsupported result type";
    let attribute = "unsupported attribute type";
    let compared = "the function does not take what the binding gives";
    let constant = "a handler's function is called as a constant";
    let int = ".Attr<int32_t>(\"k\")";
    let contract = "a shape contract is written .Shape(XLA_FFI_SHAPE(";
    for compiler in cpp_compilers(test) {
        for (name, function, binding, told) in [
            ("fits", "ffi::Error F(int32_t)", int, None),
            ("void", "void F(int32_t)", int, Some(returned)),
            ("differs", "ffi::Error F(B)", int, Some(compared)),
            (
                "attribute",
                "ffi::Error F(long double)",
                ".Attr<long double>(\"k\")",
                Some(attribute),
            ),
            (
                "struct",
                "ffi::Error F(Two)",
                ".Attrs<Two>()",
                Some("attributes are decoded into"),
            ),
            (
                "argument",
                "ffi::Error F(float)",
                ".Arg<float>()",
                Some(argument),
            ),
            (
                "result",
                "ffi::Error F(ffi::Result<B>)",
                ".Ret<ffi::Result<B>>()",
                Some(result),
            ),
            (
                "context",
                "ffi::Error F(int)",
                ".Ctx<int>()",
                Some("unsupported context type"),
            ),
            (
                "too_few",
                "ffi::Error F(B)",
                ".Arg<B>().Ret<B>()",
                Some("the function has another number of parameters than the binding"),
            ),
            (
                "mutable_in_place",
                "struct C { int n = 0; ffi::Error operator()(B) { ++n; return {}; } }; const C F{}",
                ".Arg<B>()",
                Some(constant),
            ),
            (
                "contract",
                "ffi::Error F(B, ffi::Result<B>)",
                ".Arg<B>().Ret<B>().Shape(\"n -> n\")",
                Some(contract),
            ),
        ] {
            let text = format!(
                "#include \"xla/ffi/api/ffi.h\"\nnamespace ffi = xla::ffi;\n\
                 using B = ffi::Buffer<ffi::F32>;\nstruct Two {{ int a, b; }};\n{function};\n\
                 XLA_FFI_DEFINE_HANDLER_SYMBOL(f, F, ffi::Ffi::Bind(){binding});"
            );
            let name = format!("told_{name}");
            let output = compile(compiler, &Headers::Ours, &name, &text, &["-fsyntax-only"]);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                output.status.success(),
                told.is_none(),
                "{name}: {function}: {errors}"
            );
            let first = errors.lines().find(|line| line.contains("error: "));
            assert!(
                told.is_none_or(|told| first.is_some_and(|first| first.contains(told))),
                "{compiler:?} {name}: {errors}"
            );
            let counts = name != "told_too_few" || errors.contains("SameNumber<1, 2>");
            assert!(counts, "{compiler:?} {name}: {errors}");
        }
    }
}

/// Checks that a source compiles or, with `told`, that the compiler's error contains this text.
fn check_compilation(compiler: &str, name: &str, text: &str, told: Option<&str>) {
    let output = compile(compiler, &Headers::Ours, name, text, &["-fsyntax-only"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), told.is_none(), "{name}: {errors}");
    assert!(
        told.is_none_or(|told| errors.contains(told)),
        "{compiler:?} {name}: {errors}"
    );
}

/// A layout or default for a missing operand or attribute does not compile. Unnamed operands get a default name.
#[test]
fn descriptions_refer_to_existing_operands() {
    let layout = Some("No_operand_has_the_name_that_Layout_gives");
    let default = Some("No_attribute_has_the_name_that_Default_gives");
    let required = Some("Default_needs_an_attribute_of_type_std_optional");
    for compiler in cpp_compilers("descriptions_refer_to_existing_operands") {
        for (name, about, told) in [
            ("named", ".Layout(\"x\", \"column\")", None),
            ("result", ".Layout(\"y1\", \"column\")", None),
            ("in_out", ".Layout(\"x2\", \"column\")", None),
            ("place", ".Layout(\"x0\", \"column\")", layout),
            ("field", ".Default(\"n\", \"1\")", default),
            ("typo", ".Default(\"epsilon\", \"1\")", default),
            ("given", ".Default(\"eps\", \"1\")", None),
            ("required", ".Default(\"count\", \"1\")", required),
        ] {
            let text = format!(
                "#include \"xla/ffi/api/ffi.h\"\nnamespace ffi = xla::ffi;\n\
                 using B = ffi::Buffer<ffi::F32>;\nstruct Two {{ int n; }};\n\
                 XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Two, ffi::StructMember<int>(\"n\"));\n\
                 ffi::Error F(B, B, ffi::InOut<B>, ffi::Result<B>, std::optional<float>, int, Two) {{ return {{}}; }}\n\
                 XLA_FFI_DEFINE_HANDLER_SYMBOL(f, F, ffi::Ffi::Bind().Arg<B>(\"x\").Arg<B>().InOut<B>().Ret<B>()\n\
                 .Attr<std::optional<float>>(\"eps\").Attr<int>(\"count\").Attr<Two>(\"two\"));\n\
                 XLA_FFI_LIBRARY(l, XLA_FFI_HANDLER(f){about});"
            );
            let name = format!("about_{name}");
            check_compilation(compiler, &name, &text, told);
        }
    }
}

/// If a handler's binding is not a constant, its declarations do not compile, because the description could not contain
/// them.
#[test]
fn declarations_need_a_constant_binding() {
    let told = "Only_Name_Platforms_and_Doc_are_kept_of_a_binding_that_is_no_constant";
    for compiler in cpp_compilers("declarations_need_a_constant_binding") {
        for (name, about, is_told) in [
            ("kept", ".Name(\"g\").Platforms(\"cuda\").Doc(\"d\")", false),
            ("gradient", ".Vjp(\"g\")", true),
            ("batch", ".Batch(\"sequential\")", true),
        ] {
            let text = format!(
                "#include \"xla/ffi/api/ffi.h\"\nnamespace ffi = xla::ffi;\n\
                 using B = ffi::Buffer<ffi::F32>;\nconst char* chosen();\n\
                 XLA_FFI_DEFINE_HANDLER_SYMBOL(f, [](B, ffi::Result<B>, int) {{ return ffi::Error::Success(); }},\n\
                 ffi::Ffi::Bind().Arg<B>().Ret<B>().Attr<int>(chosen()));\n\
                 XLA_FFI_LIBRARY(l, XLA_FFI_HANDLER(f){about});"
            );
            let name = format!("lost_{name}");
            check_compilation(compiler, &name, &text, is_told.then_some(told));
        }
    }
}
