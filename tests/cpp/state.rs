//! Tests C++ handlers with several stages: shared state, and attributes that several stages bind.

use crate::Headers;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_runtime::{Attributes, DType, Revision, Runtime, Shape, Stage};
use xla_ffi_testing::compiler::cpp_compilers;

fn out(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp_state");
    std::fs::create_dir_all(&folder).expect("the target folder");
    folder.join(name)
}

/// Compiles a text with the given flags.
fn compile(compiler: &str, name: &str, text: &str, flags: &[&str]) -> Output {
    let source = out(&format!("{name}.cc"));
    std::fs::write(&source, text).expect("the target folder");
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-Wall", "-Wextra", "-Wno-undefined-internal"]);
    command.args(["-pthread", "-fPIC"]);
    let command = command.args(flags).args(Headers::Ours.flags()).arg(&source);
    command.output().expect("the compiler runs")
}

/// Compiles a text with the given flags, and returns the path of the output file.
fn built(compiler: &str, name: &str, text: &str, flags: &[&str], to: &str) -> PathBuf {
    let path = out(to);
    let mut all = flags.to_vec();
    all.extend(["-o", path.to_str().expect("UTF-8")]);
    let done = compile(compiler, name, text, &all);
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && told.is_empty(),
        "{compiler} {flags:?}: {told}"
    );
    path
}

/// The manifest lists an attribute once if several stages bind it, with the bounds of all stages.
#[test]
fn attributes_of_several_stages_are_described_once() {
    let text = format!(
        "{HEAD}struct Kept {{ static ffi::TypeId id; }};\nffi::TypeId Kept::id = {{}};\n\
         struct D {{ int64_t n; }};\nXLA_FFI_REGISTER_STRUCT_ATTR_DECODING(D, xla::ffi::StructMember<int64_t>(\"n\"));\n\
         static ffi::ErrorOr<std::unique_ptr<Kept>> Make(int64_t, std::optional<int64_t>) {{\n\
           return std::make_unique<Kept>(); }}\n\
         XLA_FFI_DEFINE_HANDLER_SYMBOL(make, Make, ffi::Ffi::BindInstantiate()\n\
           .Attr<int64_t>(\"n\").Min(1).Attr<std::optional<int64_t>>(\"m\"));\n\
         static ffi::Error Use(int64_t, int64_t, D) {{ return {{}}; }}\n\
         XLA_FFI_DEFINE_HANDLER_SYMBOL(use, Use, ffi::Ffi::Bind()\n\
           .Attr<int64_t>(\"n\").Max(9).Attr<int64_t>(\"m\").Attr<D>(\"d\"));\n\
         XLA_FFI_LIBRARY(l, XLA_FFI_HANDLER(use, make));\n"
    );
    for compiler in cpp_compilers("attributes_of_several_stages_are_described_once") {
        let name = format!("stages_{compiler}.so");
        let library = built(compiler, "stages", &text, &["-shared"], &name);
        let file = std::fs::read(library).expect("the library");
        let file = String::from_utf8_lossy(&file);
        let manifest = file.split("\"handlers\"").nth(1).expect("a manifest");
        let attributes = manifest.split("\"attrs\"").nth(1).expect("attributes");
        let listed = [
            r#"{"name": "n", "type": "i64", "min": 1, "max": 9}"#,
            r#"{"name": "m", "type": "i64"}"#,
            r#"{"name": "d", "type": "dict"}"#,
            r#"{"name": "n", "type": "i64", "from": "d"}"#,
        ];
        let listed = format!(": [{}]", listed.join(", "));
        assert!(attributes.starts_with(&listed), "{attributes}");
    }
}

const HEAD: &str = "#include \"xla/ffi/api/ffi.h\"\nnamespace ffi = xla::ffi;\n";

/// A file with exceptions finds state that a file without exceptions has set, and vice versa, even if the source does
/// not name the type.
#[test]
fn files_with_and_without_exceptions_share_state() {
    let test = "files_with_and_without_exceptions_share_state";
    let common = format!(
        "{HEAD}struct Counter {{ static ffi::TypeId id; int64_t n = 5; ~Counter(); }};\n\
         struct Named {{ static ffi::TypeId id; int64_t n = 6; }};\n"
    );
    let make = format!(
        "{common}ffi::TypeId Counter::id = {{}};\nffi::TypeId Named::id = {{}};\nCounter::~Counter() {{}}\n\
         static ffi::ErrorOr<std::unique_ptr<Counter>> Make() {{ return std::make_unique<Counter>(); }}\n\
         static ffi::ErrorOr<std::unique_ptr<Named>> MakeNamed(ffi::Context context) {{\n\
           static const XLA_FFI_TypeInfo info = ffi::MakeTypeInfo<Named>(); Named::id = {{}};\n\
           if (ffi::Ffi::RegisterTypeId(context.api(), \"cpp_state.named\", &Named::id, &info) != nullptr)\n\
             return ffi::Unexpected(ffi::Error::Internal(\"refused\"));\n\
           return std::make_unique<Named>(); }}\n\
         XLA_FFI_DEFINE_HANDLER_SYMBOL(make, Make, ffi::Ffi::BindInstantiate());\n\
         XLA_FFI_DEFINE_HANDLER_SYMBOL(make_named, MakeNamed, ffi::Ffi::BindInstantiate().Ctx<ffi::Context>());\n"
    );
    let take = format!(
        "{common}template <typename T> static ffi::Error Use(T* state, ffi::ResultBufferR0<ffi::S64> y) {{\n\
           *y->typed_data() = state->n; return {{}}; }}\n\
         XLA_FFI_DEFINE_HANDLER_SYMBOL(take, Use<Counter>, ffi::Ffi::Bind().Ctx<ffi::State<Counter>>()\n\
           .Ret<ffi::BufferR0<ffi::S64>>());\n\
         XLA_FFI_DEFINE_HANDLER_SYMBOL(take_named, Use<Named>, ffi::Ffi::Bind().Ctx<ffi::State<Named>>()\n\
           .Ret<ffi::BufferR0<ffi::S64>>());\n"
    );
    let kinds = ["-fexceptions", "-fno-exceptions"];
    for compiler in cpp_compilers(test) {
        for (maker, taker) in [(0, 1), (1, 0)] {
            let object = |name: &str, text: &str, kind: usize| {
                let to = format!("{name}_{kind}_{compiler}.o");
                built(compiler, name, text, &["-c", "-O1", kinds[kind]], &to)
            };
            let objects = [object("make", &make, maker), object("take", &take, taker)];
            let library = out(&format!("between_{maker}_{compiler}.so"));
            let linked = Command::new(compiler)
                .args(["-shared", "-pthread", "-o"])
                .arg(&library)
                .args(objects)
                .status();
            assert!(linked.expect("the linker runs").success());
            for revision in [Revision::R1, Revision::R5, Revision::NEWEST] {
                let runtime = Runtime::new(revision);
                let library = runtime.open(&library).expect("it loads");
                for (make, take, value) in [("make", "take", 5), ("make_named", "take_named", 6)] {
                    let stages = [(Stage::Instantiate, make), (Stage::Execute, take)];
                    let handler = library.handler(take, &stages).expect("it registers");
                    let executable = handler.instantiate(&Attributes::new());
                    let shape = Shape::new(DType::S64, []).expect("a shape");
                    let outcome = executable.expect("state").call().ret(shape).run();
                    let outcome =
                        outcome.unwrap_or_else(|e| panic!("{compiler} {maker} {revision}: {e}"));
                    assert_eq!(outcome.rets[0].to_vec(), Some(vec![value as i64]));
                }
                std::mem::forget(runtime);
            }
        }
    }
}
