//! Tests for data races: a host with pthreads (`host.c`) calls the conformance handlers from many threads.
//!
//! The calls include the first calls of the process, calls of two copies of XLA, and calls of a host without futures.
//!
//! The C and C++ libraries and their host are built with GCC's ThreadSanitizer. Rust's locks are not pthreads locks,
//! and tools for compiled programs do not recognise Rust's atomics. Therefore, loom checks the Rust library's memory
//! orders (`cargo xtask test`). In these tests, the Rust library runs unmodified, and under memcheck, which detects
//! uses of freed memory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use xla_ffi_testing::compiler::{compiler, works};
use xla_ffi_testing::{once, root, rust_examples, skip, target_folder};

fn folder() -> PathBuf {
    let folder = target_folder().join("tmp/races");
    std::fs::create_dir_all(&folder).expect("the target folder");
    folder
}

/// Compiles a C or C++ file to `name`.
fn compile(compiler: &Path, source: &Path, name: &str, flags: &[&str]) -> PathBuf {
    // Concurrent tests use the same host file.
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());
    let _guard = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let include = root().join("include");
    let out = folder().join(name);
    let mut command = Command::new(compiler);
    command
        .args(["-g1", "-O1", "-w", "-pthread"])
        .args(flags)
        .arg("-I")
        .arg(&include)
        .arg(source);
    once::compile(&mut command, &[include.as_path(), source], Some(&out)).expect("it builds");
    out
}

fn host(compiler: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let flags = [&["-std=c11", "-ldl"], flags].concat();
    compile(compiler, &root().join("tests/races/host.c"), name, &flags)
}

/// Runs the host through `command`, which may be a tool that runs programs.
fn run(mut command: Command, library: &Path, threads: usize, rounds: usize) {
    let output = command
        .arg(library)
        .args([threads.to_string(), rounds.to_string()])
        .output()
        .expect("it starts");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs a library and its host with ThreadSanitizer. Several processes run, because each process has first calls only
/// once, and then one long run.
fn sanitized(test: &str, source: &str) {
    const FLAG: &str = "-fsanitize=thread";
    let cpp = source.ends_with(".cc");
    let named = if cpp { "g++" } else { "gcc" };
    let has_runtime = Command::new(named)
        .arg("-print-file-name=libtsan.so")
        .output()
        .is_ok_and(|output| output.stdout.starts_with(b"/"));
    if !has_runtime {
        return skip(test, "no GCC with ThreadSanitizer");
    }
    let host = host(Path::new("gcc"), "host-sanitized", &[FLAG]);
    let standard = if cpp { "-std=c++17" } else { "-std=c11" };
    let library = compile(
        Path::new(named),
        &root().join("tests/fixtures").join(source),
        &format!("lib{test}.so"),
        &[standard, "-fPIC", "-shared", FLAG],
    );
    for rounds in [1, 1, 1, 1, 10] {
        let mut command = Command::new(&host);
        command.env("TSAN_OPTIONS", "halt_on_error=1");
        run(command, &library, 64, rounds);
    }
}

#[test]
fn the_c_library() {
    sanitized("the_c_library", "conformance.c");
}

#[test]
fn the_cpp_library() {
    sanitized("the_cpp_library", "conformance.cc");
}

#[test]
fn the_rust_library() {
    let Some(compiler) = compiler(false, "the_rust_library") else {
        return;
    };
    let host = host(&compiler, "host", &[]);
    let library = rust_examples().join("libconformance.so");
    for round in 0..20 {
        run(Command::new(&host), &library, 64, 1 + round % 5);
    }
    if !works("valgrind") {
        return skip("the_rust_library", "no valgrind");
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9", "--fair-sched=yes"]);
    valgrind.arg(&host);
    run(valgrind, &library, 16, 2);
}
