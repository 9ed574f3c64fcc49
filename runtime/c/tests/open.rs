//! Calls that outlast their time limit, in C and C++: nobody touches memory that is not his.

mod support;

use std::path::Path;
use std::process::Command;
use support::{SYSTEM, libraries, program, run, skip};

/// The program under valgrind, which ends it with 9 where memory is misused or lost.
fn under_valgrind(test: &str, linked: &Path) {
    if Command::new("valgrind").arg("--version").output().is_err() {
        skip(test, "no valgrind");
        return;
    }
    let done = Command::new("valgrind")
        .args(["--quiet", "--leak-check=full", "--error-exitcode=9"])
        .args(["--errors-for-leak-kinds=definite", "--read-var-info=no"])
        .arg(linked)
        .output()
        .expect("valgrind starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
}

/// Whether programs of this compiler can be run under a sanitizer here.
fn sanitizes(compiler: &str) -> bool {
    let probe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sanitizer.c");
    std::fs::write(&probe, "int main(void) { return 0; }\n").expect("the probe");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sanitizer-{compiler}"));
    let built = Command::new(compiler)
        .args(["-fsanitize=address,undefined", "-o"])
        .args([&out, &probe])
        .output();
    built.is_ok_and(|done| done.status.success())
        && Command::new(&out)
            .output()
            .is_ok_and(|done| done.status.success())
}

fn outlasts(test: &str, compiler: &str, standard: &str, source: &str) {
    let libraries = libraries();
    let archive = libraries.join("libxla_ffi_runtime.a");
    let flags = [standard, "-g", "-Wall", "-Wextra", "-Werror", "-Iinclude"];
    let build = |name: &str, more: &[&str]| {
        let files = [source, archive.to_str().expect("UTF-8")];
        let all = [&flags[..], more, &files, &SYSTEM].concat();
        program(test, compiler, name, &all)
    };
    let Some(linked) = build(&format!("open-{compiler}"), &[]) else {
        return;
    };
    assert_eq!(run(&linked, &libraries), "done\n");
    under_valgrind(test, &linked);
    if !sanitizes(compiler) {
        skip(test, "no sanitizers");
        return;
    }
    let sanitized = format!("open-{compiler}-sanitized");
    if let Some(linked) = build(&sanitized, &["-fsanitize=address,undefined"]) {
        assert_eq!(run(&linked, &libraries), "done\n");
    }
}

#[test]
fn open_calls_in_c() {
    outlasts(
        "open_calls_in_c",
        "cc",
        "-std=c99",
        "runtime/c/tests/programs/open.c",
    );
}

#[test]
fn open_calls_in_cxx() {
    outlasts(
        "open_calls_in_cxx",
        "c++",
        "-std=c++17",
        "runtime/c/tests/programs/open.cc",
    );
}
