//! Programs in C and C++ that embed the runtime, linked with the static and the shared library.

mod support;

use std::path::PathBuf;
use support::{SYSTEM, libraries, program, run, skip};

#[test]
fn a_c_program_hosts_a_handler_that_is_linked_in() {
    let test = "a_c_program_hosts_a_handler_that_is_linked_in";
    let libraries = libraries();
    let archive = libraries.join("libxla_ffi_runtime.a");
    let sources = ["c_examples/embed/embed.c", "c_examples/operands.c"];
    let flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Iinclude"];
    let fixed = [&flags[..], &sources, &[archive.to_str().unwrap()], &SYSTEM].concat();
    let Some(linked) = program(test, "cc", "embed-static", &fixed) else {
        return;
    };
    let text = run(&linked, &libraries);
    assert!(text.ends_with("11 22 33 41 52 63\n"), "{text}");
    assert!(
        text.contains("'b'"),
        "the handler names what is missing: {text}"
    );
    let folder = format!("-L{}", libraries.display());
    let shared = [&flags[..], &sources, &[&folder, "-lxla_ffi_runtime"]].concat();
    let Some(linked) = program(test, "cc", "embed-shared", &shared) else {
        return;
    };
    assert_eq!(run(&linked, &libraries), text);
}

#[test]
fn cxx_handlers_register_themselves_at_program_start() {
    let test = "cxx_handlers_register_themselves_at_program_start";
    let Some(headers) = std::env::var_os("XLA_FFI_JAXLIB_HEADERS").map(PathBuf::from) else {
        skip(
            test,
            "XLA_FFI_JAXLIB_HEADERS is not set (`cargo xtask test` sets it)",
        );
        return;
    };
    let libraries = libraries();
    let include = format!("-I{}", headers.join("0.12.0").display());
    let archive = libraries.join("libxla_ffi_runtime.a");
    let flags = [
        "-std=c++17",
        "-w",
        &include,
        "-Iinclude",
        "runtime/tests/cxx/embed.cc",
        archive.to_str().unwrap(),
    ];
    let Some(linked) = program(test, "c++", "embed-cxx", &[&flags[..], &SYSTEM].concat()) else {
        return;
    };
    assert_eq!(run(&linked, &libraries), "3 8\n");
}
