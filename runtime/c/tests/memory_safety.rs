//! Tests calls in C and C++ that exceed their time limit: how the calls end, and who owns the operands' memory.
//! Valgrind and sanitizers check that no code accesses memory that it does not own.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{SYSTEM, libraries, program, run, skip};

/// Runs a program under valgrind, and fails if valgrind finds invalid accesses or leaks.
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

/// Returns true if this machine can run a program of this compiler with sanitizers.
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

/// Builds a program from a source and additional compiler arguments, linked with the runtime's static library.
fn with_archive(test: &str, compiler: &str, name: &str, more: &[&str]) -> Option<PathBuf> {
    let archive = libraries().join("libxla_ffi_runtime.a");
    let flags = ["-g", "-Wall", "-Wextra", "-Werror", "-Iinclude"];
    let files = [archive.to_str().expect("UTF-8")];
    program(
        test,
        compiler,
        name,
        &[&flags[..], more, &files, &SYSTEM].concat(),
    )
}

/// Builds the program of this source, and runs it directly, under valgrind and with sanitizers. The program must
/// print `said`.
fn is_clean(file: &str, said: &str) -> Option<PathBuf> {
    let libraries = libraries();
    let source = format!("runtime/c/tests/programs/{file}");
    let (compiler, standard) = match file.ends_with(".cc") {
        true => ("c++", "-std=c++17"),
        false => ("cc", "-std=gnu99"),
    };
    let build = |name: &str, more: &[&str]| {
        with_archive(file, compiler, name, &[&[standard, &source], more].concat())
    };
    let name = file.replace('.', "-");
    let linked = build(&name, &[])?;
    assert_eq!(run(&linked, &libraries), said);
    under_valgrind(file, &linked);
    if !sanitizes(compiler) {
        skip(file, "no sanitizers");
        return Some(linked);
    }
    if let Some(linked) = build(
        &format!("{name}-sanitized"),
        &["-fsanitize=address,undefined"],
    ) {
        assert_eq!(run(&linked, &libraries), said);
    }
    Some(linked)
}

#[test]
fn unfinished_calls_in_c() {
    is_clean("unfinished_calls.c", "done\n");
}

#[test]
fn results_of_programs_in_cxx() {
    is_clean("results.cc", "done\n");
}

#[test]
fn unwritten_results_in_c() {
    is_clean("unwritten.c", "done\n");
}

#[test]
fn handlers_work_in_the_callers_memory() {
    is_clean("memory.c", "in place\n");
}

#[test]
fn the_end_of_a_runtime_in_cxx() {
    is_clean("server.cc", "all ended\n");
}

#[test]
fn the_end_of_a_runtime_in_c() {
    let Some(linked) = is_clean("server.c", "all ended\n") else {
        return;
    };
    let library = xla_ffi_testing::rust_examples().join("libexecution.so");
    let threads = Command::new(&linked).arg(library).output();
    let threads = threads.expect("the program starts");
    assert_eq!(String::from_utf8_lossy(&threads.stdout), "on my threads\n");
    let logs = Command::new(linked)
        .arg("log")
        .env("XLA_FFI_PRINT_FRAMES", "1")
        .output()
        .expect("the program starts");
    assert_eq!(String::from_utf8_lossy(&logs.stdout), "logged\n");
    // Without a logger, frames are printed to standard error. Messages that occur inside a logger are also printed
    // there.
    let said = String::from_utf8_lossy(&logs.stderr);
    assert_eq!(
        said.matches("': call frame, execute stage\n").count(),
        2,
        "{said}"
    );
}

/// If an allocation fails, the call returns a status, or Rust's allocator ends the process.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn memory_that_runs_out_in_c() {
    let flags = ["-std=gnu11", "runtime/c/tests/programs/no_memory.c"];
    if let Some(linked) = with_archive("memory_that_runs_out_in_c", "cc", "no_memory", &flags) {
        assert_eq!(run(&linked, &libraries()), "done\n");
    }
}
