//! What handlers and targets leave unwritten, told to programs in C and C++ that ask for it.

mod support;

use support::{SYSTEM, libraries, program, run};

fn tells(test: &str, compiler: &str, standard: &str, source: &str) {
    let libraries = libraries();
    let archive = libraries.join("libxla_ffi_runtime.a");
    let flags = [standard, "-Wall", "-Wextra", "-Werror", "-Iinclude", source];
    let all = [&flags[..], &[archive.to_str().expect("UTF-8")], &SYSTEM].concat();
    if let Some(linked) = program(test, compiler, &format!("unwritten-{compiler}"), &all) {
        assert_eq!(run(&linked, &libraries), "done\n");
    }
}

#[test]
fn unwritten_results_in_c() {
    tells(
        "unwritten_results_in_c",
        "cc",
        "-std=c99",
        "runtime/c/tests/programs/unwritten.c",
    );
}

#[test]
fn unwritten_results_in_cxx() {
    tells(
        "unwritten_results_in_cxx",
        "c++",
        "-std=c++17",
        "runtime/c/tests/programs/unwritten.cc",
    );
}
