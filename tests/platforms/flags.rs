//! Flags that change what XLA and a library have in common do not compile, in words.

use std::path::Path;
use std::process::Command;
use xla_ffi_testing::{compiler::works, skip};

/// Whether a source of this text compiles, and its errors.
fn compile(test: &str, compiler: &str, flags: &[&str], text: &str) -> Option<(bool, Vec<String>)> {
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
        let compile = |flag| compile("short_enums_do_not_compile", compiler, &[flag], &text);
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

/// An open `#pragma pack` and -fpack-struct change every struct of the ABI.
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
        // With the flag, what comes before is refused.
        let flags: &[&str] = if before.is_empty() {
            &["-fpack-struct=1"]
        } else {
            &[]
        };
        for (pragma, flags) in [("#pragma pack(4)\n", &[][..]), ("", flags)] {
            let text = format!("{before}{pragma}#include \"{header}\"\n");
            let Some((fine, errors)) = compile(test, compiler, flags, &text) else {
                continue;
            };
            let is_packed = !pragma.is_empty() || !flags.is_empty();
            let told = |line: &String| line.contains(padded) && line.contains("packed");
            let as_wanted = fine != is_packed && (fine || errors.iter().any(told));
            assert!(as_wanted, "{compiler} {header} {pragma}: {errors:?}");
        }
    }
}
