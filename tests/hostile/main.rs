//! Hostile hosts: the conformance handlers in Rust, C and C++ on every revision, with call frames and
//! function tables that no XLA sends. Nothing may break, and what must be refused is.
//!
//! The embedded runtime makes each frame; a handler of ours between it and the library's copies it into
//! memory of exactly its size, spoils it and hands it on. C and C++ are built with the sanitizers for
//! addresses and undefined behaviour, but for alignment and the range of enums. Each library is attacked
//! in a child process, so that a crash tells its seed.
//!
//! `XLA_FFI_FRAMES` is how many frames a library gets, `XLA_FFI_SEED` the first one's seed.

mod attack;
mod frame;
mod rng;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::compiler::works;
use xla_ffi_testing::examples::rust_examples;
use xla_ffi_testing::{once, root, skip, target_folder};

/// Frames for a library where nothing else is said.
const FRAMES: u64 = 20_000;

/// The same under valgrind, where all is 50 times as slow.
const VALGRIND_FRAMES: u64 = 300;

/// Set in the child: the library, the first seed, how many, and the file that takes the seed.
const ORDER: &str = "XLA_FFI_HOSTILE";

fn number(variable: &str, otherwise: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Attacks a library in a child, which runs the test of this name.
fn survives(test: &str, library: &Path, preload: &str) {
    let program = std::env::current_exe().expect("this program");
    survives_in(Command::new(program), test, library, preload, FRAMES);
}

/// The same in a child that `command` starts: this program, perhaps under another one.
fn survives_in(command: Command, test: &str, library: &Path, preload: &str, frames: u64) {
    if let Ok(order) = std::env::var(ORDER) {
        let words: Vec<&str> = order.split(';').collect();
        let number = |i: usize| words[i].parse().expect("a number");
        attack::run(
            Path::new(words[0]),
            number(1),
            number(2),
            Path::new(words[3]),
        );
        return;
    }
    let seed = number("XLA_FFI_SEED", 0);
    let frames = number("XLA_FFI_FRAMES", frames);
    let (output, at) = child(command, test, library, preload, seed, frames);
    let said = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    // What a sanitizer says begins with its verdict; a panic's words are all there is.
    let verdict = ["ERROR: ", "runtime error: ", "panicked at", "\n=="]
        .iter()
        .find_map(|words| told.find(words));
    let verdict: Vec<&str> = told[verdict.unwrap_or(0)..].lines().take(16).collect();
    assert!(
        output.status.success(),
        "{}: {} at seed {at} (again: XLA_FFI_SEED={at} XLA_FFI_FRAMES=1)\n{}",
        library.display(),
        output.status,
        verdict.join("\n"),
    );
    assert!(said.contains("survived"), "{said}\n{told}");
    print!(
        "{}",
        said.lines()
            .filter(|line| line.contains("survived"))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    );
}

fn child(
    mut command: Command,
    test: &str,
    library: &Path,
    preload: &str,
    seed: u64,
    frames: u64,
) -> (Output, String) {
    let folder = target_folder().join("tmp/hostile");
    std::fs::create_dir_all(&folder).expect("the target folder");
    let at = folder.join(format!("{test}.{}.seed", std::process::id()));
    let order = format!("{};{seed};{frames};{}", library.display(), at.display());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ORDER, order)
        // What a handler allocates for a shape that no memory holds is refused, as elsewhere; a type's
        // number is kept per host for ever, and hosts come and go here alone.
        .env(
            "ASAN_OPTIONS",
            "allocator_may_return_null=1:detect_leaks=0:abort_on_error=0",
        )
        .env("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1");
    if !preload.is_empty() {
        command.env("LD_PRELOAD", preload);
    }
    let output = command.output().expect("the child starts");
    let seed = std::fs::read_to_string(&at).unwrap_or_default();
    let _ = std::fs::remove_file(&at);
    (output, seed.trim().to_owned())
}

/// The library built with sanitizers and what its process has to load first; `None`, told, where this
/// machine has no GCC with them.
fn sanitized(test: &str, source: &str) -> Option<(PathBuf, String)> {
    let cpp = source.ends_with(".cc");
    let compiler = if cpp { "g++" } else { "gcc" };
    let library = |name: &str| {
        let output = Command::new(compiler)
            .arg(format!("-print-file-name={name}"))
            .output();
        let path = String::from_utf8(output.ok()?.stdout)
            .ok()?
            .trim()
            .to_owned();
        Path::new(&path).is_absolute().then_some(path)
    };
    let Some(preload) = library("libasan.so") else {
        skip(test, "no GCC with sanitizers");
        return None;
    };
    // Its interceptor of `throw` wants the function to be there when it starts.
    let preload = match library("libstdc++.so.6") {
        Some(standard) => format!("{preload}:{standard}"),
        None => preload,
    };
    let source = root().join("testing/fixtures").join(source);
    let include = root().join("include");
    let folder = target_folder().join("tmp/hostile");
    std::fs::create_dir_all(&folder).expect("the target folder");
    let out = folder.join(format!("lib{test}.so"));
    let mut command = Command::new(compiler);
    command
        .args([
            if cpp { "-std=c++17" } else { "-std=c11" },
            "-g1",
            "-O1",
            "-fPIC",
            "-shared",
            "-w",
        ])
        .args([
            "-fsanitize=address,undefined",
            "-fno-sanitize=alignment,enum",
        ])
        .args([
            "-fno-sanitize-recover=all",
            "-fno-omit-frame-pointer",
            "-pthread",
        ])
        .arg("-I")
        .arg(&include)
        .arg(&source);
    let inputs = [include.as_path(), source.parent().expect("its folder")];
    once::compile(&mut command, &inputs, Some(&out)).expect("the library builds");
    Some((out, preload))
}

#[test]
fn the_rust_library() {
    survives(
        "the_rust_library",
        &rust_examples().join("libconformance.so"),
        "",
    );
}

/// Under memcheck, which tells what no crash shows: memory that is read before it is written, or after it
/// is freed.
#[test]
fn the_rust_library_under_valgrind() {
    let test = "the_rust_library_under_valgrind";
    let ordered = std::env::var_os(ORDER).is_some();
    if !ordered && !works("valgrind") {
        return skip(test, "no valgrind");
    }
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--quiet", "--error-exitcode=9", "--num-callers=20"])
        .arg(std::env::current_exe().expect("this program"));
    let library = rust_examples().join("libconformance.so");
    survives_in(valgrind, test, &library, "", VALGRIND_FRAMES);
}

#[test]
fn the_c_library() {
    if std::env::var_os(ORDER).is_some() {
        return survives("the_c_library", Path::new(""), "");
    }
    if let Some((library, preload)) = sanitized("the_c_library", "conformance.c") {
        survives("the_c_library", &library, &preload);
    }
}

#[test]
fn the_cpp_library() {
    if std::env::var_os(ORDER).is_some() {
        return survives("the_cpp_library", Path::new(""), "");
    }
    if let Some((library, preload)) = sanitized("the_cpp_library", "conformance.cc") {
        survives("the_cpp_library", &library, &preload);
    }
}
