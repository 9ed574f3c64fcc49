//! Tests of the internal C++ API, `xla/ffi/ffi.h`. In programs that are linked with the runtime, handlers of this API
//! receive objects of the runtime. If handler and runtime are in different libraries, the handlers are refused.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{SYSTEM, libraries, program, skip};

const WARNINGS: [&str; 9] = [
    "-std=c++17",
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wconversion",
    "-Wold-style-cast",
    "-pedantic",
    "-Werror",
    "-Iinclude",
];

/// Returns the compiler flags for Debian's Abseil. If it is not installed, prints a message and returns `None`.
fn abseil(test: &str) -> Option<Vec<String>> {
    let asked = Command::new("pkg-config")
        .args(["--libs", "absl_statusor", "absl_span", "absl_cord"])
        .output();
    match asked {
        Ok(done) if done.status.success() => {
            let flags = String::from_utf8_lossy(&done.stdout).into_owned();
            Some(flags.split_whitespace().map(str::to_owned).collect())
        }
        _ => {
            skip(test, "no Abseil (libabsl-dev)");
            None
        }
    }
}

/// Builds a program that is linked with the runtime's static library.
fn linked(test: &str, compiler: &str, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let archive = libraries().join("libxla_ffi_runtime.a");
    let inputs = [source, archive.to_str().unwrap()];
    program(
        test,
        compiler,
        name,
        &[&WARNINGS[..], &inputs, flags, &SYSTEM].concat(),
    )
}

fn done(program: &Path, arguments: &[PathBuf]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", libraries())
        .output()
        .expect("the program starts")
}

fn said(program: &Path, arguments: &[PathBuf]) -> String {
    let done = done(program, arguments);
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{:?}: {told}", done.status);
    String::from_utf8_lossy(&done.stdout).into_owned()
}

const BINDINGS: &str = "runtime/c/tests/programs/internal.cc";

/// The program is compiled by GCC without Abseil. XLA refuses its handlers.
#[test]
fn handlers_get_the_runtimes_own_objects() {
    let test = "handlers_get_the_runtimes_own_objects";
    let flags = ["-g", "-DXLA_FFI_ABSEIL=0"];
    let Some(program) = linked(test, "g++", "internal-plain", BINDINGS, &flags) else {
        return;
    };
    let plugin: Vec<PathBuf> = xla_ffi_testing::plugin(test).into_iter().collect();
    assert_eq!(said(&program, &plugin), "done, plain\n");
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip(test, "no valgrind");
    }
    let done = Command::new("valgrind")
        .args(["--quiet", "--leak-check=full", "--error-exitcode=9"])
        .args([
            "--errors-for-leak-kinds=definite,indirect",
            "--read-var-info=no",
        ])
        .arg(&program)
        .output()
        .expect("valgrind starts");
    let told = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{told}");
}

/// The program is compiled with absl::Status, absl::StatusOr and absl::Span, without exceptions and type information.
/// The compiler is Clang if available.
#[test]
fn statuses_are_abseils_where_it_is_present() {
    let test = "statuses_are_abseils_where_it_is_present";
    let abseil = abseil(test);
    let wanted = match abseil {
        Some(_) => "done, Abseil\n",
        None => "done, plain\n",
    };
    let libraries = abseil.unwrap_or_else(|| vec!["-DXLA_FFI_ABSEIL=0".to_owned()]);
    let mut flags: Vec<&str> = libraries.iter().map(String::as_str).collect();
    flags.extend(["-fno-exceptions", "-fno-rtti"]);
    let is_there = Command::new("clang++").arg("--version").output().is_ok();
    let compiler = if is_there { "clang++" } else { "g++" };
    let Some(program) = linked(test, compiler, "internal-bare", BINDINGS, &flags) else {
        return;
    };
    assert_eq!(said(&program, &[]), wanted);
}

/// Handlers of one library must refuse a runtime of a different library. The libraries have separate statics,
/// functions that override functions of the other library, or a shared runtime.
#[test]
fn across_images_it_is_refused() {
    let test = "across_images_it_is_refused";
    let archive = libraries().join("libxla_ffi_runtime.a");
    let archive = archive.to_str().unwrap();
    let object = |name: &str, more: &[&str]| {
        let flags = [
            "-DXLA_FFI_ABSEIL=0",
            "-fPIC",
            "-fvisibility=hidden",
            "-c",
            "runtime/c/tests/programs/internal_boundary.cc",
        ];
        program(
            test,
            "g++",
            &format!("{name}.o"),
            &[&WARNINGS[..], &flags, more].concat(),
        )
    };
    let library = object("internal_library", &["-DLIBRARY"]);
    let (Some(library), Some(boundary)) = (library, object("internal_boundary", &[])) else {
        return;
    };
    let link = |name: &str, object: &Path, flags: &[&str]| {
        let all = [&[object.to_str().unwrap()][..], flags].concat();
        program(test, "g++", name, &all).expect("it linked before")
    };
    let home = [&["-shared", archive][..], &SYSTEM].concat();
    let with_runtime = link("libinternal_home.so", &library, &home);
    let without = link("libinternal_guest.so", &library, &["-shared"]);

    // The library and the program have separate runtimes. First their functions are separate; then the program's
    // functions override those of the library.
    let quiet = link(
        "internal-boundary",
        &boundary,
        &[&[archive][..], &SYSTEM].concat(),
    );
    let loud = [&[archive, "-rdynamic"][..], &SYSTEM].concat();
    let loud = link("internal-boundary-loud", &boundary, &loud);
    for (program, libraries, at_home) in [
        (&quiet, vec![with_runtime.clone()], true),
        (&loud, vec![with_runtime, without], false),
    ] {
        let told = said(program, &libraries);
        let lines: Vec<_> = told.lines().collect();
        let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
        // On all three revisions, the program's runtime accepts the handler that is linked into the program.
        assert_eq!(count("own: 0 "), 3, "{told}");
        // From r7, the error contains the reason. Earlier hosts pass no function table with which an error could be
        // created.
        for library in &libraries {
            let prefix = format!("{}: ", library.display());
            let answers: Vec<_> = lines
                .iter()
                .filter_map(|line| line.strip_prefix(&prefix))
                .collect();
            assert_eq!(answers.len(), 3, "{told}");
            assert!(
                answers.iter().all(|answer| !answer.starts_with("0 ")),
                "{told}"
            );
            for answer in &answers[..2] {
                assert!(
                    answer.starts_with("9 ") && answer.contains("insider"),
                    "{told}"
                );
                let wanted = match at_home {
                    true => "this call comes from another host",
                    false => "is in a different image than its runtime",
                };
                assert!(answer.contains(wanted), "{told}");
            }
        }
        // The runtime in the library of the handler accepts the same handler.
        if at_home {
            assert_eq!(count("at home: 0"), 3, "{told}");
        }
    }

    // This program uses the shared library of the runtime.
    let folder = format!("-L{}", libraries().display());
    let shared = link(
        "internal-shared",
        &boundary,
        &[&folder, "-lxla_ffi_runtime"],
    );
    let told = said(&shared, &[]);
    let refused = told
        .lines()
        .filter(|line| line.contains("own: 9 ") && line.contains("libxla_ffi_runtime.a"));
    assert_eq!(refused.count(), 2, "{told}");
    assert!(!told.contains("own: 0 "), "{told}");
}
