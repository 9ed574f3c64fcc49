//! Tests the headers for other systems: C under MSVC's rules, compile errors on unsupported systems, and flags that
//! would change the ABI.
//!
//! `cli/tests/platforms.rs` tests libraries that zig builds for other systems.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::compiler::works;
use xla_ffi_testing::{root, skip};

/// Declarations of the C library functions that the examples use, in the form of Visual C++, whose own headers are not
/// available.
const LIBRARY: &[(&str, &str)] = &[
    (
        "stdio.h",
        "#include <stdarg.h>\n#include <stddef.h>\ntypedef struct FILE FILE;\nFILE* __acrt_iob_func(unsigned index);\n\
         #define stderr __acrt_iob_func(2)\nint fprintf(FILE* file, const char* format, ...);\n\
         int fputs(const char* text, FILE* file);\n\
         size_t fwrite(const void* from, size_t size, size_t count, FILE* file);\n\
         int snprintf(char* to, size_t size, const char* format, ...);\n\
         int vsnprintf(char* to, size_t size, const char* format, va_list list);\n",
    ),
    (
        "stdlib.h",
        "#include <stddef.h>\nvoid* malloc(size_t size);\nvoid* calloc(size_t count, size_t size);\n\
         void qsort(void* from, size_t count, size_t size, int (*compare)(const void*, const void*));\n\
         void* realloc(void* old, size_t size);\nvoid free(void* memory);\nvoid abort(void);\n\
         long long strtoll(const char* text, char** end, int base);\ndouble strtod(const char* text, char** end);\n",
    ),
    (
        "string.h",
        "#include <stddef.h>\nvoid* memcpy(void* to, const void* from, size_t size);\n\
         void* memmove(void* to, const void* from, size_t size);\nvoid* memset(void* to, int byte, size_t size);\n\
         int memcmp(const void* one, const void* other, size_t size);\nsize_t strlen(const char* text);\n\
         int strcmp(const char* one, const char* other);\n\
         int strncmp(const char* one, const char* other, size_t size);\nchar* strchr(const char* text, int c);\n\
         char* strcpy(char* to, const char* from);\n\
         char* strstr(const char* text, const char* other);\n",
    ),
    ("math.h", "float sqrtf(float x);\nfloat expf(float x);\n"),
    (
        "intrin.h",
        "long _InterlockedOr(long volatile* place, long value);\n\
         long _InterlockedExchange(long volatile* place, long value);\n\
         void* _InterlockedExchangePointer(void* volatile* place, void* value);\n\
         void* _InterlockedCompareExchangePointer(void* volatile* place, void* value, void* expected);\n",
    ),
    (
        "malloc.h",
        "#include <stddef.h>\nvoid* _aligned_malloc(size_t size, size_t align);\nvoid _aligned_free(void* memory);\n",
    ),
];

/// Writes the headers in `LIBRARY` to a folder, each with an include guard.
fn library(folder: &Path) {
    for (name, text) in LIBRARY {
        let guarded = format!("#pragma once\n{text}");
        std::fs::write(folder.join(name), guarded).unwrap();
    }
}

/// Flags that hide clang's identity, so that `_MSC_VER` and the headers' Visual C++ paths apply.
///
/// GNU features that clang still accepts are undeclared. At its usual warning level, Visual C++ does not warn about
/// unused functions.
const AS_VISUAL_C: &[&str] = &[
    "-U__clang__",
    "-fms-compatibility-version=19.40",
    "-D__attribute__=gnu_only",
    "-D__builtin_expect=gnu_only",
    "-D__atomic_load_n=gnu_only",
    "-D__atomic_store_n=gnu_only",
    "-D__atomic_exchange_n=gnu_only",
    "-D__atomic_compare_exchange_n=gnu_only",
    "-Wno-unused-function",
];

fn clang(target: &str, language: &str, system: &Path, source: &Path) -> Output {
    clang_with(&[], target, language, system, source)
}

fn clang_with(
    flags: &[&str],
    target: &str,
    language: &str,
    system: &Path,
    source: &Path,
) -> Output {
    let standard = match language {
        "c" => "-std=c11",
        _ => "-std=c++17",
    };
    Command::new("clang")
        .args(["-x", language, standard, "-target", target, "-fsyntax-only"])
        .args([
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-nostdlibinc",
            "-ffreestanding",
        ])
        .args(flags)
        .arg("-I")
        .arg(root().join("include"))
        .arg("-isystem")
        .arg(system)
        .arg(source)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the C examples.
fn examples() -> Vec<PathBuf> {
    let files = std::fs::read_dir(root().join("c_examples")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|end| end == "c"))
        .collect()
}

#[test]
fn c_is_clean_under_the_rules_of_msvc() {
    if !works("clang") {
        return skip("c_is_clean_under_the_rules_of_msvc", "no clang");
    }
    let folder = tempfile::tempdir().unwrap();
    library(folder.path());
    // This source compiles the embedding API, together with a program header that no other source uses.
    let embedding = folder.path().join("embedding.c");
    let text = "#include \"xla_ffi/runtime.h\"\n#include \"xla_ffi/program.h\"\n";
    std::fs::write(&embedding, text).unwrap();
    // This source compiles original custom calls for devices, which no C example covers.
    let legacy = folder.path().join("legacy.c");
    let text = "#include \"xla_ffi/legacy/adapt.h\"\n#include \"xla_ffi/legacy/device.h\"\n";
    std::fs::write(&legacy, text).unwrap();
    let sources = examples();
    assert!(sources.len() > 4, "{sources:?}");
    let target = "x86_64-pc-windows-msvc";
    for source in sources.iter().chain([&embedding, &legacy]) {
        for flags in [&[][..], AS_VISUAL_C] {
            let output = clang_with(flags, target, "c", folder.path(), source);
            assert!(
                output.status.success(),
                "{} {flags:?}: {}",
                source.display(),
                said(&output)
            );
        }
    }
    // These two sources must not compile: one uses an operation that Visual C++ lacks, the other an undeclared name.
    let gnu = folder.path().join("gnu.c");
    let text = "int f(int* at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }\n";
    std::fs::write(&gnu, text).unwrap();
    for (flags, fits) in [(&[][..], true), (AS_VISUAL_C, false)] {
        let output = clang_with(flags, target, "c", folder.path(), &gnu);
        assert_eq!(output.status.success(), fits, "{}", said(&output));
    }
    let wrong = folder.path().join("wrong.c");
    std::fs::write(
        &wrong,
        "#include \"xla_ffi/handler.h\"\nint f(void) { return nothing; }\n",
    )
    .unwrap();
    assert!(
        !clang("x86_64-pc-windows-msvc", "c", folder.path(), &wrong)
            .status
            .success()
    );
}

const SMALL: &str = "XLA's FFI is laid out for 64-bit systems, and jaxlib has no 32-bit build";
const BIG: &str =
    "XLA's FFI is laid out for little-endian systems, and jaxlib has no big-endian build";

#[test]
fn unsupported_systems_are_compile_errors() {
    if !works("clang") {
        return skip("unsupported_systems_are_compile_errors", "no clang");
    }
    let folder = tempfile::tempdir().unwrap();
    library(folder.path());
    for (language, header) in [("c", "xla_ffi/handler.h"), ("c++", "xla/ffi/api/ffi.h")] {
        let source = folder.path().join("source");
        std::fs::write(&source, format!("#include \"{header}\"\n")).unwrap();
        for (target, told, other) in [
            ("i686-linux-gnu", SMALL, BIG),
            ("armv7-linux-gnueabihf", SMALL, BIG),
            ("i686-pc-windows-msvc", SMALL, BIG),
            ("s390x-linux-gnu", BIG, SMALL),
            ("powerpc64-linux-gnu", BIG, SMALL),
        ] {
            let text = said(&clang(target, language, folder.path(), &source));
            assert!(text.contains(told), "{language} for {target}: {text}");
            assert!(!text.contains(other), "{language} for {target}: {text}");
        }
        let here = said(&clang("x86_64-linux-gnu", language, folder.path(), &source));
        assert!(!here.contains("jaxlib has no"), "{here}");
    }
}

/// Returns whether a text compiles as a source, and the compiler's errors.
fn compile_with_flags(
    test: &str,
    compiler: &str,
    flags: &[&str],
    text: &str,
) -> Option<(bool, Vec<String>)> {
    if !works(compiler) {
        skip(test, &format!("no {compiler}"));
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let is_cpp = compiler.ends_with("++");
    let source = folder.join(if is_cpp { "a.cc" } else { "a.c" });
    std::fs::write(&source, text).unwrap();
    let mut command = Command::new(compiler);
    command.arg(if is_cpp { "-std=c++17" } else { "-std=c99" });
    command.args(["-Wall", "-Wextra", "-Wpedantic", "-fsyntax-only", "-I"]);
    command.arg(env!("SDK_INCLUDE_DIR")).args(flags);
    let output = command.arg(&source).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let errors = told.lines().filter(|line| line.contains("error:"));
    let errors =
        errors.map(|line| line.replace("leave_out_the_flag_fshort_enums", "-fshort-enums"));
    Some((output.status.success(), errors.collect()))
}

#[test]
fn short_enums_do_not_compile() {
    for (compiler, header) in [
        ("gcc", "xla_ffi/handler.h"),
        ("clang", "xla_ffi/handler.h"),
        ("g++", "xla/ffi/api/ffi.h"),
    ] {
        let text = format!("#include \"{header}\"\n");
        let compile =
            |flag| compile_with_flags("short_enums_do_not_compile", compiler, &[flag], &text);
        let Some((fine, errors)) = compile("-Werror") else {
            continue;
        };
        assert!(fine, "{compiler}: {errors:?}");
        let (fine, errors) = compile("-fshort-enums").expect("the compiler works");
        let told = errors
            .first()
            .is_some_and(|line| line.contains("-fshort-enums"));
        assert!(!fine && told, "{compiler}: {errors:?}");
    }
}

/// An open `#pragma pack` and -fpack-struct would change every struct of the ABI, so they are compile errors.
#[test]
fn packed_structs_do_not_compile() {
    let test = "packed_structs_do_not_compile";
    let (handler, ffi) = ("xla_ffi/handler.h", "xla/ffi/api/ffi.h");
    let record = "xla/ffi/api/record_api.h";
    for (compiler, before, header, padded) in [
        ("gcc", "", handler, "XLA_FFI_Buffer"),
        ("clang", "", "xla_ffi/runtime.h", "XLA_FFI_Buffer"),
        ("gcc", handler, "xla_ffi/program.h", "xffi_rt_array"),
        (
            "gcc",
            "xla_ffi/program.h",
            "xla_ffi/pjrt.h",
            "xffi_rt_launch_options",
        ),
        ("g++", "", ffi, "XLA_FFI_Buffer"),
        ("clang++", ffi, record, "XLA_FFI_KernelArg"),
    ] {
        let before = match before {
            "" => String::new(),
            before => format!("#include \"{before}\"\n"),
        };
        // With the flag, even headers included first are rejected.
        let flags: &[&str] = if before.is_empty() {
            &["-fpack-struct=1"]
        } else {
            &[]
        };
        for (pragma, flags) in [("#pragma pack(4)\n", &[][..]), ("", flags)] {
            let text = format!("{before}{pragma}#include \"{header}\"\n");
            let Some((fine, errors)) = compile_with_flags(test, compiler, flags, &text) else {
                continue;
            };
            let is_packed = !pragma.is_empty() || !flags.is_empty();
            let told = |line: &String| line.contains(padded) && line.contains("packed");
            let as_wanted = fine != is_packed && (fine || errors.iter().any(told));
            assert!(as_wanted, "{compiler} {header} {pragma}: {errors:?}");
        }
    }
}
