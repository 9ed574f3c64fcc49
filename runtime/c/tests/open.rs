//! Calls that outlast their time limit, how they end, and whose memory they work in, in C and C++: nobody touches
//! memory that is not his.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{SYSTEM, libraries, program, run, skip};

/// The program under valgrind, which ends it with 9 where memory is misused or lost; how it ended, and what
/// valgrind said.
fn valgrind(test: &str, linked: &Path, arguments: &[&str]) -> Option<(Option<i32>, String)> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        skip(test, "no valgrind");
        return None;
    }
    let done = Command::new("valgrind")
        .args(["--quiet", "--leak-check=full", "--error-exitcode=9"])
        .args(["--errors-for-leak-kinds=definite", "--read-var-info=no"])
        .arg(linked)
        .args(arguments)
        .output()
        .expect("valgrind starts");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Some((done.status.code(), said))
}

/// Fails where valgrind finds anything.
fn under_valgrind(test: &str, linked: &Path) {
    if let Some((code, said)) = valgrind(test, linked, &[]) {
        assert_eq!(code, Some(0), "{said}");
    }
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

/// Builds a program of these sources and flags with the archive.
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

/// One of the programs in C.
fn in_c(test: &str, name: &str) -> Option<PathBuf> {
    let source = format!("runtime/c/tests/programs/{name}.c");
    with_archive(test, "cc", name, &["-std=gnu99", &source])
}

/// Builds the program and runs it alone, under valgrind and with sanitizers; it says `said`.
fn is_clean(
    test: &str,
    compiler: &str,
    standard: &str,
    source: &str,
    said: &str,
) -> Option<PathBuf> {
    let libraries = libraries();
    let build = |name: &str, more: &[&str]| {
        with_archive(test, compiler, name, &[&[standard, source], more].concat())
    };
    let stem = Path::new(source).file_stem()?.to_str()?;
    let linked = build(&format!("{stem}-{compiler}"), &[])?;
    assert_eq!(run(&linked, &libraries), said);
    under_valgrind(test, &linked);
    if !sanitizes(compiler) {
        skip(test, "no sanitizers");
        return Some(linked);
    }
    let sanitized = format!("{stem}-{compiler}-sanitized");
    if let Some(linked) = build(&sanitized, &["-fsanitize=address,undefined"]) {
        assert_eq!(run(&linked, &libraries), said);
    }
    Some(linked)
}

#[test]
fn open_calls_in_c() {
    is_clean(
        "open_calls_in_c",
        "cc",
        "-std=c99",
        "runtime/c/tests/programs/open.c",
        "done\n",
    );
}

#[test]
fn a_handler_and_its_own_call() {
    is_clean(
        "a_handler_and_its_own_call",
        "cc",
        "-std=c99",
        "runtime/c/tests/programs/within.c",
        "done\n",
    );
}

#[test]
fn what_a_call_reaches_before_execute_and_the_call() {
    is_clean(
        "what_a_call_reaches_before_execute_and_the_call",
        "cc",
        "-std=c99",
        "runtime/c/tests/programs/around.c",
        "done\n",
    );
}

#[test]
fn open_calls_in_cxx() {
    is_clean(
        "open_calls_in_cxx",
        "c++",
        "-std=c++17",
        "runtime/c/tests/programs/open.cc",
        "done\n",
    );
}

#[test]
fn late_programs_in_cxx() {
    is_clean(
        "late_programs_in_cxx",
        "c++",
        "-std=c++17",
        "runtime/c/tests/programs/late.cc",
        "done\n",
    );
}

#[test]
fn the_end_of_a_runtime_in_c() {
    let linked = is_clean(
        "the_end_of_a_runtime_in_c",
        "cc",
        "-std=gnu99",
        "runtime/c/tests/programs/server.c",
        "all ended\n",
    );
    let Some(linked) = linked else { return };
    let logs = Command::new(linked)
        .arg("log")
        .env("XLA_FFI_PRINT_FRAMES", "1")
        .output()
        .expect("the program starts");
    assert_eq!(String::from_utf8_lossy(&logs.stdout), "logged\n");
    // With no logger, frames go there, and so do those of what a logger calls.
    let said = String::from_utf8_lossy(&logs.stderr);
    assert_eq!(
        said.matches("': call frame, execute stage\n").count(),
        2,
        "{said}"
    );
}

#[test]
fn the_end_of_a_runtime_in_cxx() {
    is_clean(
        "the_end_of_a_runtime_in_cxx",
        "c++",
        "-std=c++17",
        "runtime/c/tests/programs/server.cc",
        "all ended\n",
    );
}

#[test]
fn handlers_work_in_the_callers_memory() {
    is_clean(
        "handlers_work_in_the_callers_memory",
        "cc",
        "-std=c99",
        "runtime/c/tests/programs/memory.c",
        "in place\n",
    );
}

/// A deadlock ends the program.
#[test]
fn no_lock_is_held_while_the_logger_runs() {
    let test = "no_lock_is_held_while_the_logger_runs";
    if let Some(linked) = in_c(test, "locks") {
        assert_eq!(run(&linked, &libraries()), "done\n");
    }
}

/// Nothing may hold the unwinding of a thread that ends, and Rust lets none pass.
#[test]
fn a_thread_that_ends_in_a_handler_ends_the_process_in_words() {
    let test = "a_thread_that_ends_in_a_handler_ends_the_process_in_words";
    let Some(linked) = in_c(test, "ended") else {
        return;
    };
    for how in ["exits", "cancelled", "deleter"] {
        let ended = Command::new(&linked).arg(how).output().expect("it starts");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), None, "{how}: {said}");
        assert_eq!(ended.stdout, b"", "{how}: {said}");
        let words =
            "xla-ffi: a thread was ended (pthread_exit, pthread_cancel) inside of a handler";
        assert!(said.starts_with(words), "{how}: {said}");
    }
}

/// The chapter says that nothing but a tool can tell; this one does.
#[test]
fn valgrind_tells_of_data_that_is_freed_too_early() {
    let test = "valgrind_tells_of_data_that_is_freed_too_early";
    let Some(linked) = in_c(test, "freed") else {
        return;
    };
    for (arguments, expected) in [(&["waits"][..], 0), (&[], 9)] {
        let Some((code, said)) = valgrind(test, &linked, arguments) else {
            return;
        };
        assert_eq!(code, Some(expected), "{said}");
        for words in [
            "Invalid read of size 4",
            "Invalid write of size 4",
            "free'd",
        ] {
            assert_eq!(said.contains(words), expected == 9, "{words}: {said}");
        }
    }
}
