//! Tests that each committed C header compiles without other includes, in every language. The headers must declare
//! every name of the newest upstream headers, as the same kind of declaration.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_abi::declared::{EDITIONS, Edition, witnesses};
use xla_ffi_abi::header::{Error, Source};
use xla_ffi_abi::model::{Abi, Header};
use xla_ffi_abi::snapshot::{self, Verdict};
use xla_ffi_abi::{diff, spelling};
use xla_ffi_sys::JAXLIBS;
use xla_ffi_testing::compiler::works;
use xla_ffi_testing::headers::{self, api_folder, folder_or_skip};
use xla_ffi_testing::{root, skip};

/// Compiles `text` as a source file. If this fails, returns the compiler's messages as the error.
fn compile(compiler: &str, arguments: &[&str], text: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let is_cpp = compiler.contains("++");
    let file = folder
        .path()
        .join(if is_cpp { "unit.cc" } else { "unit.c" });
    std::fs::write(&file, text).unwrap();
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-c"])
        .arg(&file)
        .arg("-o")
        .arg(folder.path().join("unit.o"))
        .args(arguments)
        .output()
        .unwrap();
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn include() -> String {
    format!("-I{}", root().join("include").display())
}

#[test]
fn each_header_compiles_alone() {
    let include = include();
    for (compiler, standards) in [
        ("gcc", ["-std=c99", "-std=c11", "-std=c17"]),
        ("clang", ["-std=c99", "-std=c11", "-std=c17"]),
        ("g++", ["-std=c++11", "-std=c++17", "-std=c++20"]),
        ("clang++", ["-std=c++11", "-std=c++17", "-std=c++20"]),
    ] {
        if !works(compiler) {
            skip(
                "each_header_compiles_alone",
                &format!("{compiler} is not there"),
            );
            continue;
        }
        for standard in standards {
            for header in Header::ALL {
                // Each header is included twice, because several other headers may include it.
                let text = format!(
                    "#include \"xla/ffi/api/{header}\"\n#include \"xla/ffi/api/{header}\"\n\
                     extern int unit;\nint unit;\n"
                );
                if let Err(said) = compile(compiler, &[standard, &include], &text) {
                    panic!("{header}, {compiler} {standard}:\n{said}");
                }
            }
        }
    }
}

#[test]
fn a_handler_in_plain_c_compiles() {
    let text = r#"
#include "xla/ffi/api/c_api.h"
struct Mine { size_t struct_size; int last; };
XLA_FFI_DEFINE_STRUCT_TRAITS(Mine, last);
XLA_FFI_Error* add(XLA_FFI_CallFrame* call_frame);
XLA_FFI_Error* add(XLA_FFI_CallFrame* call_frame) {
  static XLA_FFI_TypeId id;
  XLA_FFI_Handler* self = add;
  const XLA_FFI_Api* api = call_frame->api;
  XLA_FFI_Error_Create* create = api->XLA_FFI_Error_Create;
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, "no",
                                    XLA_FFI_Error_Code_INTERNAL};
  XLA_FFI_Buffer* x = (XLA_FFI_Buffer*)call_frame->args.args[0];
  id = XLA_FFI_UNKNOWN_TYPE_ID;
  if (x->dtype != XLA_FFI_DataType_F32 || id.type_id != 0 || self == NULL) return create(&args);
  return NULL;
}
"#;
    for compiler in ["gcc", "clang"] {
        if !works(compiler) {
            skip(
                "a_handler_in_plain_c_compiles",
                &format!("{compiler} is not there"),
            );
            continue;
        }
        if let Err(said) = compile(compiler, &["-std=c11", &include()], text) {
            panic!("{compiler}:\n{said}");
        }
    }
}

/// Tests that headers refuse to compile if structs are packed, by an earlier `#pragma pack` or by a compiler option.
#[test]
fn packed_structs_do_not_compile() {
    let c = "xla/ffi/api/c_api xla/ffi/api/record_c_api xla/ffi/api/collectives_c_api xla_ffi/handler \
             xla_ffi/runtime xla_ffi/program xla_ffi/pjrt";
    for line in [
        "gcc -std=c99",
        "gcc -std=c11",
        "clang -std=c11",
        "g++ -std=c++17",
        "clang++ -std=c++17",
    ] {
        let (compiler, standard) = line.split_once(' ').unwrap();
        if !works(compiler) {
            let why = format!("{compiler} is not there");
            skip("packed_structs_do_not_compile", &why);
            continue;
        }
        let cpp = compiler.contains("++").then_some("xla/ffi/api/ffi");
        for header in c.split_whitespace().chain(cpp) {
            for (pragma, option) in [("#pragma pack(push, 1)", "-w"), ("", "-fpack-struct=4")] {
                let text = format!("{pragma}\n#include \"{header}.h\"\n");
                let said = compile(compiler, &[standard, &include(), "-w", option], &text);
                let said = said.unwrap_err();
                assert!(said.contains("packed"), "{header}, {line} {option}: {said}");
            }
        }
    }
}

/// Returns C++ static assertions about every declaration of the newest edition.
fn kinds() -> String {
    let mut text = String::from(
        "#include <type_traits>\n#include \"xla/ffi/api/record_c_api.h\"\n\
         #include \"xla/ffi/api/collectives_c_api.h\"\n\
         template <typename T, typename = void> struct complete : std::false_type {};\n\
         template <typename T> struct complete<T, decltype(void(sizeof(T)))> : std::true_type {};\n",
    );
    let mut say = |what: String| text.push_str(&format!("static_assert({what}, \"\");\n"));
    for edition in EDITIONS
        .iter()
        .filter(|edition| edition.last_jaxlib.is_none())
    {
        let abi = edition.declared();
        for (name, layout) in &abi.structs {
            say(format!("std::is_class<{name}>::value"));
            say(format!("std::is_same<{name}, struct {name}>::value"));
            say(format!("sizeof({name}) == {}", layout.size));
            if let Some(size) = layout.struct_size {
                say(format!("{name}_STRUCT_SIZE == {size}"));
            }
            for field in &layout.fields {
                say(format!(
                    "offsetof({name}, {}) == {}",
                    field.name, field.offset
                ));
            }
        }
        for (name, layout) in &abi.enums {
            say(format!("std::is_enum<enum {name}>::value"));
            for (value, number) in &layout.values {
                say(format!(
                    "std::is_same<decltype({value}), enum {name}>::value"
                ));
                say(format!("{value} == {number}"));
            }
        }
        for name in &abi.opaque {
            say(format!("!complete<{name}>::value"));
            say(format!("std::is_same<{name}, struct {name}>::value"));
        }
        for name in abi.functions.keys() {
            say(format!("std::is_function<{name}>::value"));
        }
        for (name, value) in &abi.constants {
            say(format!("{name} == {value}"));
        }
    }
    say(
        "std::is_same<XLA_FFI_Api*, std::remove_const<XLA_FFI_Api>::type*>::value && \
         std::is_same<decltype(&XLA_FFI_GetApi), const XLA_FFI_Api* (*)()>::value"
            .to_owned(),
    );
    say("std::is_same<decltype(XLA_FFI_UNKNOWN_TYPE_ID), XLA_FFI_TypeId>::value".to_owned());
    say("std::is_same<XLA_FFI_ExecutionContext, XLA_FFI_InvokeContext>::value".to_owned());
    say("std::is_same<XLA_FFI_Handler_Traits, uint32_t>::value".to_owned());
    text.push_str("constexpr XLA_FFI_TypeId none = XLA_FFI_UNKNOWN_TYPE_ID;\n");
    text.push_str("static_assert(none.type_id == 0, \"\");\n");
    text
}

#[test]
fn names_are_the_kinds_that_upstream_has() {
    let text = kinds();
    assert!(text.matches("static_assert").count() > 500);
    for compiler in ["g++", "clang++"] {
        if !works(compiler) {
            skip(
                "names_are_the_kinds_that_upstream_has",
                &format!("{compiler} is not there"),
            );
            continue;
        }
        // GCC only warns about `offsetof` for types without standard layout, so this unit checks that no struct causes
        // the warning.
        if let Err(said) = compile(compiler, &["-std=c++17", &include()], &text) {
            panic!("{compiler}:\n{said}");
        }
        let wrong = text.replacen(
            "sizeof(XLA_FFI_Buffer) == 48",
            "sizeof(XLA_FFI_Buffer) == 40",
            1,
        );
        assert_ne!(wrong, text);
        assert!(compile(compiler, &["-std=c++17", &include()], &wrong).is_err());
    }
}

fn upstream() -> Option<PathBuf> {
    Some(api_folder(&headers::folder()?, "0.12.0"))
}

/// Returns all names in a C file that belong to the ABI, ignoring comments.
fn names(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with("XLA_FFI_") && !word.ends_with("_H_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_upstream_name_is_missing() {
    let Some(upstream) = upstream() else {
        skip(
            "no_upstream_name_is_missing",
            "XLA_FFI_JAXLIB_HEADERS is not set (cargo xtask test sets it)",
        );
        return;
    };
    let folder = root().join("include/xla/ffi/api");
    let main = names(&folder.join(Header::Main.file_name()));
    for header in Header::ALL {
        let file = header.file_name();
        let theirs = names(&upstream.join(file));
        // This project's headers of extensions include the main header, so the names in the main header count.
        let ours: BTreeSet<_> = names(&folder.join(file)).union(&main).cloned().collect();
        assert!(theirs.len() > 10, "{file}");
        let missing: Vec<_> = theirs.difference(&ours).collect();
        assert!(missing.is_empty(), "{file} lacks {missing:?}");
    }
}

#[test]
fn upstream_sources_compile_against_ours() {
    let Some(upstream) = upstream() else {
        skip(
            "upstream_sources_compile_against_ours",
            "XLA_FFI_JAXLIB_HEADERS is not set (cargo xtask test sets it)",
        );
        return;
    };
    if !works("g++") {
        skip("upstream_sources_compile_against_ours", "g++ is not there");
        return;
    }
    // This include folder precedes upstream's folder and contains only this project's C headers, so the C++ headers are
    // upstream's.
    let only_c = tempfile::tempdir().unwrap();
    let api = only_c.path().join("xla/ffi/api");
    std::fs::create_dir_all(&api).unwrap();
    for header in Header::ALL {
        let file = header.file_name();
        std::fs::copy(
            root().join("include/xla/ffi/api").join(file),
            api.join(file),
        )
        .unwrap();
    }
    let ours = format!("-I{}", only_c.path().display());
    let theirs = format!("-isystem{}", upstream.ancestors().nth(3).unwrap().display());
    let text = r#"
#include "xla/ffi/api/ffi.h"
#include "xla/ffi/api/record_api.h"
#include "xla/ffi/api/collectives_api.h"
#ifndef XLA_FFI_SDK_C_API_H_
#error "these are upstream's C headers"
#endif
namespace ffi = xla::ffi;
static ffi::Error Add(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  y->typed_data()[0] = x.typed_data()[0];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(add, Add,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
"#;
    if let Err(said) = compile("g++", &["-std=c++17", &ours, &theirs], text) {
        panic!("{said}");
    }
}

#[test]
fn meeting_upstream_is_told() {
    let Some(upstream) = upstream() else {
        skip(
            "meeting_upstream_is_told",
            "XLA_FFI_JAXLIB_HEADERS is not set (cargo xtask test sets it)",
        );
        return;
    };
    if !works("g++") {
        skip("meeting_upstream_is_told", "g++ is not there");
        return;
    }
    let theirs = upstream.join("c_api.h").display().to_string();
    let ours = root()
        .join("include/xla/ffi/api/c_api.h")
        .display()
        .to_string();
    let both = |first: &str, second: &str| {
        compile(
            "g++",
            &["-std=c++17"],
            &format!("#include \"{first}\"\n#include \"{second}\"\n"),
        )
    };
    let said = both(&theirs, &ours).unwrap_err();
    assert!(said.contains("keep one of the two include"), "{said}");
    // If this project's header is included first, upstream's header declares nothing, because its include guard is
    // already defined.
    both(&ours, &theirs).unwrap();
}

/// Returns the text of a C header with all declarations of a model.
fn spelled(abi: &Abi) -> String {
    let mut text = String::from("#include <stddef.h>\n#include <stdint.h>\n");
    for name in abi.structs.keys().chain(&abi.opaque) {
        text.push_str(&format!("typedef struct {name} {name};\n"));
    }
    for (name, layout) in &abi.enums {
        let values = layout
            .values
            .iter()
            .map(|(value, number)| format!("  {value} = {number},\n"));
        let values: String = values.collect();
        text.push_str(&format!("typedef enum {name} {{\n{values}}} {name};\n"));
    }
    for (name, number) in &abi.constants {
        text.push_str(&format!("#define {name} {number}\n"));
    }
    for (name, ty) in &abi.functions {
        text.push_str(&format!("{};\n", spelling::function_type(ty, name)));
    }
    for (name, ty) in &abi.aliases {
        text.push_str(&format!("{};\n", spelling::alias(ty, name)));
    }
    for (name, ty) in &abi.prototypes {
        let declared = spelling::prototype(ty, name);
        text.push_str(&format!("extern \"C\" {declared};\n"));
    }
    // A struct must follow the structs that it contains by value.
    let mut left: Vec<&String> = abi.structs.keys().collect();
    while !left.is_empty() {
        let waits = |name: &&String| {
            let mut fields = abi.structs[*name].fields.iter();
            fields.any(|field| left.contains(&&field.ty))
        };
        let (later, ready): (Vec<&String>, Vec<&String>) = left.iter().copied().partition(waits);
        assert!(!ready.is_empty(), "{later:?} have each other by value");
        for name in ready {
            let layout = &abi.structs[name];
            let fields = layout.fields.iter().map(|field| {
                let declared = spelling::declaration(&field.ty, &field.name);
                format!("  {declared};\n")
            });
            let fields: String = fields.collect();
            text.push_str(&format!("struct {name} {{\n{fields}}};\n"));
            if let Some(size) = layout.struct_size {
                text.push_str(&format!("enum {{ {name}_STRUCT_SIZE = {size} }};\n"));
            }
        }
        left = later;
    }
    text
}

#[test]
fn what_the_model_spells_in_c_is_read_back() {
    for known in snapshot::all().unwrap() {
        let name = known.edition.name();
        // The headers of extensions do not compile without the main header, so they are skipped.
        if known.edition.header != Header::Main {
            continue;
        }
        let source = Source::from_text(Path::new("spelled.h"), spelled(&known.abi));
        match source.read() {
            Ok(read) => {
                let told = diff::differences(&read, &known.abi);
                assert!(told.is_empty(), "{name}: {told:#?}");
            }
            Err(Error::Missing(why)) => {
                return skip("what_the_model_spells_in_c_is_read_back", &why);
            }
            Err(error) => panic!("{name}: {error}\n{}", spelled(&known.abi)),
        }
    }
}

#[test]
fn every_jaxlib_has_the_header_of_its_edition() {
    let test = "every_jaxlib_has_the_header_of_its_edition";
    let Some(headers) = folder_or_skip(test) else {
        return;
    };
    let mut seen = BTreeSet::new();
    for version in witnesses(&JAXLIBS) {
        let folder = api_folder(&headers, version);
        for header in Header::ALL {
            let path = folder.join(header.file_name());
            if !path.is_file() {
                continue;
            }
            let edition = Edition::of_jaxlib(header, version).unwrap();
            let abi = match Source::open(&path, &[]).unwrap().read() {
                Ok(abi) => abi,
                Err(Error::Missing(why)) => return skip(test, &why),
                Err(error) => panic!("{version} {header}: {error}"),
            };
            let lines = diff::differences(&edition.declared(), &abi);
            assert!(lines.is_empty(), "{version} {header}: {lines:#?}");
            match snapshot::identify(&abi).unwrap() {
                Verdict::Known(known) => assert_eq!(known.edition, edition),
                Verdict::Unknown { changes, .. } => panic!("{version} {header}: {changes:#?}"),
            }
            seen.insert(edition.name());
        }
    }
    assert!(!seen.is_empty(), "there are no headers");
}

#[test]
fn committed_headers_are_the_newest_revision() {
    let folder = root().join("include/xla/ffi/api");
    for (header, expected) in [
        (Header::Main, "r10"),
        (Header::Record, "record-0.2"),
        (Header::Collectives, "collectives-0.3"),
    ] {
        let source = Source::open(&folder.join(header.file_name()), &[]).unwrap();
        let abi = match source.read() {
            Ok(abi) => abi,
            Err(Error::Missing(why)) => {
                return skip("committed_headers_are_the_newest_revision", &why);
            }
            Err(error) => panic!("{header}: {error}"),
        };
        match snapshot::identify(&abi).unwrap() {
            Verdict::Known(snapshot) => assert_eq!(snapshot.edition.name(), expected),
            Verdict::Unknown { changes, .. } => panic!("{header}: {changes:#?}"),
        }
    }
}
