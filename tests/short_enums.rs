//! Flags that change what XLA and a library have in common do not compile, in words.

use std::path::Path;
use std::process::Command;
use xla_ffi_testing::{compiler::works, skip};

#[test]
fn short_enums_do_not_compile() {
    let test = "short_enums_do_not_compile";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    for (compiler, standard, header) in [
        ("gcc", "-std=c99", "xla_ffi/handler.h"),
        ("clang", "-std=c11", "xla_ffi/handler.h"),
        ("g++", "-std=c++17", "xla/ffi/api/ffi.h"),
    ] {
        if !works(compiler) {
            skip(test, &format!("no {compiler}"));
            continue;
        }
        let source = folder.join(if compiler.ends_with("++") {
            "a.cc"
        } else {
            "a.c"
        });
        std::fs::write(&source, format!("#include \"{header}\"\n")).unwrap();
        for short in [false, true] {
            let mut command = Command::new(compiler);
            command.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Wconversion"]);
            if short {
                command.arg("-fshort-enums");
            } else {
                command.arg("-Werror");
            }
            command.args(["-fsyntax-only", "-I", env!("SDK_INCLUDE_DIR")]);
            let output = command.arg(&source).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), !short, "{compiler}: {told}");
            let told = told.replace("leave_out_the_flag_fshort_enums", "-fshort-enums");
            let first = told.lines().find(|line| line.contains("error:"));
            assert!(
                !short || first.is_some_and(|line| line.contains("-fshort-enums")),
                "{compiler} {standard}: {told}"
            );
        }
    }
}

/// An open `#pragma pack` and -fpack-struct change every struct of the ABI.
#[test]
fn packed_structs_do_not_compile() {
    let test = "packed_structs_do_not_compile";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let (c, cpp) = (["gcc", "clang"], ["g++", "clang++"]);
    for (compilers, standard, before, header, padded) in [
        (c, "-std=c99", "", "xla_ffi/handler.h", "XLA_FFI_Buffer"),
        (c, "-std=c11", "", "xla_ffi/runtime.h", "XLA_FFI_Buffer"),
        (
            c,
            "-std=c99",
            "xla/ffi/api/c_api.h",
            "xla_ffi/program.h",
            "xffi_rt_array",
        ),
        (
            c,
            "-std=c99",
            "xla_ffi/program.h",
            "xla_ffi/pjrt.h",
            "xffi_rt_launch_options",
        ),
        (cpp, "-std=c++17", "", "xla/ffi/api/ffi.h", "XLA_FFI_Buffer"),
        (
            cpp,
            "-std=c++17",
            "xla/ffi/api/ffi.h",
            "xla/ffi/api/record_api.h",
            "XLA_FFI_KernelArg",
        ),
    ] {
        for compiler in compilers {
            if !works(compiler) {
                skip(test, &format!("no {compiler}"));
                continue;
            }
            let ending = if compiler.ends_with("++") { "cc" } else { "c" };
            let source = folder.join(format!("a.{ending}"));
            let before = match before {
                "" => String::new(),
                before => format!("#include \"{before}\"\n"),
            };
            for (pragma, flag) in [
                ("", None),
                ("#pragma pack(4)\n", None),
                ("", Some("-fpack-struct=1")),
            ] {
                if flag.is_some() && !before.is_empty() {
                    continue; // the header before is refused already
                }
                let text = format!("{before}{pragma}#include \"{header}\"\n");
                std::fs::write(&source, text).unwrap();
                let mut command = Command::new(compiler);
                command.args([standard, "-Wall", "-Wextra", "-Wpedantic"]);
                command.args(flag);
                command.args(["-fsyntax-only", "-I", env!("SDK_INCLUDE_DIR")]);
                let output = command.arg(&source).output().unwrap();
                let told = String::from_utf8_lossy(&output.stderr);
                let is_packed = !pragma.is_empty() || flag.is_some();
                assert_eq!(
                    output.status.success(),
                    !is_packed,
                    "{compiler} {header}: {told}"
                );
                let mut errors = told.lines().filter(|line| line.contains("error:"));
                assert!(
                    !is_packed
                        || errors.any(|line| line.contains(padded) && line.contains("packed")),
                    "{compiler} {header} {pragma}: {told}"
                );
            }
        }
    }
}
