//! Checks that a library that does not hide its symbols does not export header templates that are instantiated with its
//! own types.
//!
//! Otherwise, two libraries with structs of the same name but different fields would share these symbols in a process.

use crate::{Headers, build};
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_testing::{compiler::cpp_compilers, compiler::works, skip};

/// A source that instantiates every template of the headers with its own types, in namespace `users`.
const SOURCE: &str = r#"
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
namespace users {
struct Opts { int32_t a, b; };
struct Opt { int32_t a; std::optional<float> b; };
enum class Mode : int32_t { kA, kB };
enum class Level : uint64_t { kLow, kHigh };
struct Deep { Opts opts; std::optional<Opt> opt; Mode mode; };
}
namespace { struct Own { int32_t a; }; }
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(users::Opts, StructMember<int32_t>("a"), StructMember<int32_t>("b"));
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(users::Opt, StructMember<int32_t>("a"), StructMember<std::optional<float>>("b"));
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Own, StructMember<int32_t>("a"));
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(users::Mode);
XLA_FFI_REGISTER_ENUM_RANGE_ATTR_DECODING(users::Level, users::Level::kLow, users::Level::kHigh);
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(users::Deep, StructMember<users::Opts>("opts"),
                                      StructMember<std::optional<users::Opt>>("opt"), StructMember<users::Mode>("mode"));
using V = std::variant<users::Opts, users::Opt, int64_t>;
using Empty = ffi::Error;
static Empty F(users::Opts, users::Opt, users::Mode, users::Level, users::Deep, V, int8_t, float,
               std::optional<users::Opts>, users::Opts*, Own) { return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(f, F, ffi::Ffi::Bind().Attr<users::Opts>("a").Attr<users::Opt>("b").Attr<users::Mode>("c")
    .Attr<users::Level>("d").Attr<users::Deep>("e").Attr<V>("f").Attr<int64_t>("g").Attr<double>("h")
    .Attr<std::optional<users::Opts>>("i").Attr<ffi::Pointer<users::Opts>>("j").Attr<Own>("k"));
struct Functor { Empty operator()(users::Opts, int = 3) const { return {}; } };
XLA_FFI_DEFINE_HANDLER_SYMBOL(g, Functor{}, ffi::Ffi::Bind().Attrs<users::Opts>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(h, [](users::Deep) { return Empty(); }, ffi::Ffi::Bind().Attrs<users::Deep>());
namespace users { struct Kept { static ffi::TypeId id; }; ffi::TypeId Kept::id = {}; }
static ffi::ErrorOr<std::unique_ptr<users::Kept>> Make() { return std::make_unique<users::Kept>(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(make, Make, ffi::Ffi::BindInstantiate());
static Empty D(ffi::Dictionary d) {
  if (d.contains<users::Opts>("x") || d.contains<users::Level>("x") || d.contains<V>("x")) return {};
  auto x = d.get<users::Opts>("x");
  auto y = d.get<users::Deep>("y");
  auto z = d.get<V>("z");
  auto w = d.get<users::Level>("w");
  return x.has_value() && y.has_value() && z.has_value() && w.has_value() ? Empty() : x.error();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(d, D);
"#;

/// Returns true if a name belongs to the headers, including variables within their functions and the guards of those
/// variables.
///
/// Excludes names that the standard library generates for our types, and type information of types that all libraries
/// share.
fn is_of_headers(name: &str) -> bool {
    let name = name.strip_prefix("_Z").unwrap_or_default();
    let name = name.strip_prefix("GV").unwrap_or(name);
    name.trim_start_matches(['Z', 'N', 'K', 'V', 'R', 'O'])
        .starts_with("3xla3ffi")
}

/// Writes a source file for these tests.
fn written(name: &str, text: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp_exports");
    std::fs::create_dir_all(&folder).expect("the target folder");
    let source = folder.join(name);
    std::fs::write(&source, text).expect("the target folder");
    source
}

/// Returns the symbols that a library exports, or `None` without `nm`.
fn exported(library: &Path, test: &str) -> Option<Vec<String>> {
    let Some(nm) = ["nm", "llvm-nm"].into_iter().find(|program| works(program)) else {
        skip(test, "no nm");
        return None;
    };
    let output = Command::new(nm)
        .args(["-D", "--defined-only"])
        .arg(library)
        .output();
    let text = String::from_utf8(output.expect("nm runs").stdout).expect("ASCII");
    let names = text.lines().filter_map(|line| line.split(' ').nth(2));
    Some(names.map(str::to_owned).collect())
}

/// Handlers in an unnamed namespace and handlers hidden by a compiler flag are exported. `static` before the macros
/// would hide the symbol, so it is a compile error.
#[test]
fn handlers_are_exported_or_do_not_compile() {
    let test = "handlers_are_exported_or_do_not_compile";
    let source = written(
        "unnamed.cc",
        "#include \"xla/ffi/api/ffi.h\"\n#include \"xla_ffi/handler.h\"\nnamespace ffi = xla::ffi;\n\
         namespace {\nffi::Error F(ffi::AnyBuffer) { return ffi::Error(); }\n\
         XLA_FFI_DEFINE_HANDLER_SYMBOL(automatic, F);\n\
         XLA_FFI_DEFINE_HANDLER_SYMBOL(bound, F, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>());\n\
         namespace deeper { XLA_FFI_DEFINE_HANDLER_SYMBOL(lambda, [] { return ffi::Error(); }, ffi::Ffi::Bind()); }\n\
         XLA_FFI_Error* G(xffi_call* call) { return xffi_decoded(call); }\nXFFI_HANDLER(in_c, G);\n}\n",
    );
    for compiler in cpp_compilers(test) {
        let flags = ["-O2", "-fvisibility=hidden", "-fvisibility-inlines-hidden"];
        let library = build(compiler, &source, &Headers::Ours, &flags);
        let Some(names) = exported(&library, test) else {
            return;
        };
        for symbol in ["automatic", "bound", "lambda", "in_c"] {
            assert!(
                names.iter().any(|name| name == symbol),
                "{compiler} {symbol}: {names:?}"
            );
        }
        for (language, before, compiles) in [
            ("c", "", true),
            ("c++", "", true),
            ("c", "static", false),
            ("c++", "static", false),
        ] {
            let text = "#include \"xla_ffi/handler.h\"\n\
                static XLA_FFI_Error* F(xffi_call* call) { return xffi_decoded(call); }\n";
            let source = written(
                "static.cc",
                &format!("{text}{before} XFFI_HANDLER(f, F);\n"),
            );
            let mut command = Command::new(compiler);
            command.args(["-x", language, "-fsyntax-only"]).arg(source);
            let done = command
                .args(Headers::Ours.flags())
                .output()
                .expect("it runs");
            assert_eq!(
                done.status.success(),
                compiles,
                "{compiler} {language} {before}"
            );
        }
    }
}

#[test]
fn header_instantiations_are_not_exported() {
    let test = "header_instantiations_are_not_exported";
    let source = written("users.cc", SOURCE);
    for compiler in cpp_compilers(test) {
        for flags in [&["-Wall", "-Wextra", "-Werror"][..], &["-O2"]] {
            let library = build(compiler, &source, &Headers::Ours, flags);
            let Some(names) = exported(&library, test) else {
                return;
            };
            assert!(
                names.iter().any(|name| name == "f"),
                "{compiler} {flags:?}: {names:?}"
            );
            let ours: Vec<_> = names.iter().filter(|name| is_of_headers(name)).collect();
            assert!(ours.is_empty(), "{compiler} {flags:?}: {ours:?}");
        }
    }
}
