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
        ("gcc", "-std=c11", "xla_ffi/handler.h"),
        ("clang", "-std=c99", "xla_ffi/handler.h"),
        ("clang", "-std=c11", "xla_ffi/handler.h"),
        ("g++", "-std=c++17", "xla/ffi/api/ffi.h"),
        ("clang++", "-std=c++17", "xla/ffi/api/ffi.h"),
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
