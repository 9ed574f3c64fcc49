//! Tests of C and C++ programs on XLA: with one additional argument, programs for the embedded runtime run on a PJRT
//! plugin.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{SYSTEM, libraries, program, repository, run, skip};
use xla_ffi_testing::compiler::shared_library;
use xla_ffi_testing::plugin;

/// Builds a C library for a test. If no compiler is available, prints a message and returns `None`.
fn library(test: &str, source: &str, name: &str) -> Option<PathBuf> {
    library_with(test, source, name, &[])
}

fn library_with(test: &str, source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pjrt");
    let include = format!("-I{}", repository().join("include").display());
    let flags = flags.iter().map(|flag| (*flag).to_owned());
    let flags: Vec<_> = flags.chain([include]).collect();
    shared_library(&folder, test, &repository().join(source), name, &flags)
}

/// Builds a program that is linked with the runtime.
fn linked(test: &str, source: &str, name: &str) -> Option<PathBuf> {
    linked_of(test, &[source], name)
}

/// Builds a program from several sources in one language.
fn linked_of(test: &str, sources: &[&str], name: &str) -> Option<PathBuf> {
    let archive = libraries().join("libxla_ffi_runtime.a");
    let (compiler, standard) = match sources[0].ends_with(".cc") {
        true => ("c++", "-std=c++17"),
        false => ("cc", "-std=c99"),
    };
    let flags = [standard, "-g", "-Wall", "-Wextra", "-Werror", "-Iinclude"];
    let archive = [archive.to_str().unwrap()];
    let flags = [&flags[..], sources, &archive, &SYSTEM].concat();
    program(test, compiler, name, &flags)
}

/// Runs a program, which must exit successfully, and returns its output.
fn says(program: &Path, arguments: &[&Path]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{:?}: {told}", done.status);
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Runs the example programs on the embedded runtime and on XLA.
#[test]
fn the_same_programs_on_a_real_xla() {
    let test = "the_same_programs_on_a_real_xla";
    let Some(plugin) = plugin(test) else { return };
    for source in ["program.c", "program.cc"] {
        let name = format!("pjrt-{source}");
        let Some(program) = linked(test, &format!("c_examples/embed/{source}"), &name) else {
            return;
        };
        assert_eq!(
            says(&program, &[&plugin]),
            run(&program, &libraries()),
            "{source}"
        );
        let told = Command::new(&program)
            .arg("no/such/plugin.so")
            .output()
            .unwrap();
        assert_eq!(told.status.code(), Some(1));
        let told = String::from_utf8_lossy(&told.stderr);
        assert!(told.contains("no/such/plugin.so"), "{told}");
    }
}

#[test]
fn a_c_program_compiles_stablehlo_and_hlo() {
    let test = "a_c_program_compiles_stablehlo_and_hlo";
    let Some(plugin) = plugin(test) else { return };
    let Some(handlers) = library(test, "c_examples/operands.c", "operands") else {
        return;
    };
    let Some(program) = linked_of(test, &["c_examples/embed/embed.c"], "pjrt-example") else {
        return;
    };
    let said = says(&program, &[&plugin, &handlers]);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 5, "{said}");
    assert_eq!(lines[..2], ["platform cpu", "21 42 61 82"]);
    assert!(lines[2].starts_with("error 3: "), "{said}");
    assert!(lines[3].starts_with("error "), "{said}");
    assert_eq!(lines[4], "11 22 31 42");
}

#[test]
fn mistakes_with_plugins_are_statuses() {
    let test = "mistakes_with_plugins_are_statuses";
    let source = "runtime/c/tests/programs/pjrt_library.c";
    let Some(handlers) = library_with(test, source, "pjrt_library", &["-DREGISTERS"]) else {
        return;
    };
    let described = ["WHOLE", "WRONGLY", "SILENT", "ELSEWHERE"].map(|kind| {
        let name = format!("described_{}", kind.to_lowercase());
        library_with(test, source, &name, &[&format!("-D{kind}")]).unwrap()
    });
    let Some(program) = linked(test, "runtime/c/tests/programs/pjrt.c", "pjrt-mistakes") else {
        return;
    };
    let libraries = [&handlers].into_iter().chain(&described);
    let libraries: Vec<&Path> = libraries.map(PathBuf::as_path).collect();
    let with = |plugin| [&[plugin], &libraries[..]].concat();
    assert_eq!(says(&program, &with(Path::new("-"))), "");
    if Command::new("valgrind").arg("--version").output().is_err() {
        skip(test, "no valgrind");
    } else {
        let done = Command::new("valgrind")
            .args(["--quiet", "--leak-check=full", "--error-exitcode=9"])
            .args([
                "--errors-for-leak-kinds=definite,indirect",
                "--read-var-info=no",
            ])
            .arg(&program)
            .args(with(Path::new("-")))
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(0), "{told}");
    }
    let Some(plugin) = plugin(test) else { return };
    assert_eq!(says(&program, &with(&plugin)), "done\n");
}

#[test]
fn the_same_in_cxx() {
    let test = "the_same_in_cxx";
    let Some(plugin) = plugin(test) else { return };
    let Some(described) = library(test, "c_examples/execution.cc", "execution_cxx") else {
        return;
    };
    let Some(program) = linked(test, "runtime/c/tests/programs/pjrt.cc", "pjrt-cxx") else {
        return;
    };
    assert_eq!(says(&program, &[&plugin, &described]), "done\n");
}
