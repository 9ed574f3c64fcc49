//! Tests of programs in C and C++ that are linked with the runtime's static library. The programs use handlers that
//! are linked into them, and build and run programs of custom calls.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{SYSTEM, libraries, program, repository, run, skip};

const NORMS: &str = "\
HloModule norms, entry_computation_layout={(f32[3,4]{1,0})->f32[3]{0}}

ENTRY %main (x: f32[3,4]) -> f32[3] {
  %x = f32[3,4]{1,0} parameter(0)
  %custom-call.1 = (f32[3]{0}, f32[4]{0}) custom-call(%x), custom_call_target=\"squares\", \
operand_layout_constraints={f32[3,4]{1,0}}
  %get-tuple-element.2 = f32[3]{0} get-tuple-element(%custom-call.1), index=0
  ROOT %custom-call.3 = f32[3]{0} custom-call(%get-tuple-element.2), custom_call_target=\"roots\", \
operand_layout_constraints={f32[3]{0}}, output_to_operand_aliasing={{}: (0, {})}, api_version=API_VERSION_STATUS_RETURNING
}
instruction 'custom-call.1': no legacy target is registered as 'squares' for platform 'cpu'; there \
are: none
2 4 6 not a number
";

/// Builds a program that is linked with the runtime, with the given compiler flags.
fn embedding(
    test: &str,
    compiler: &str,
    flags: &[&str],
    source: &str,
    name: &str,
) -> Option<PathBuf> {
    let archive = libraries().join("libxla_ffi_runtime.a");
    let usual = ["-g", "-Wall", "-Wextra", "-Werror", "-Iinclude", source];
    let archive = [archive.to_str().unwrap()];
    let all = [flags, &usual, &archive, &SYSTEM].concat();
    program(test, compiler, name, &all)
}

fn c_program(test: &str, source: &str, name: &str) -> Option<PathBuf> {
    embedding(test, "cc", &["-std=c99"], source, name)
}

#[test]
fn a_c_program_builds_prints_and_runs_a_program() {
    let test = "a_c_program_builds_prints_and_runs_a_program";
    let libraries = libraries();
    let Some(linked) = c_program(test, "c_examples/embed/program.c", "program-c") else {
        return;
    };
    assert_eq!(run(&linked, &libraries), NORMS);
    if Command::new("valgrind").arg("--version").output().is_err() {
        skip(test, "no valgrind");
        return;
    }
    leaks(&linked);
}

/// Runs a program under valgrind, and fails if valgrind finds a leak or an invalid access.
fn leaks(linked: &Path) {
    let done = Command::new("valgrind")
        .args(["--quiet", "--leak-check=full", "--error-exitcode=9"])
        .args([
            "--errors-for-leak-kinds=definite,indirect",
            "--read-var-info=no",
        ])
        .arg(linked)
        .output()
        .expect("valgrind starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
}

#[test]
fn mistakes_in_c_are_statuses() {
    let test = "mistakes_in_c_are_statuses";
    let libraries = libraries();
    let Some(linked) = c_program(
        test,
        "runtime/c/tests/programs/mistakes.c",
        "program-mistakes",
    ) else {
        return;
    };
    let said = run(&linked, &libraries);
    assert!(said.ends_with(" mistakes told\n"), "{said}");
}

#[test]
fn programs_as_the_documents_write_them() {
    let test = "programs_as_the_documents_write_them";
    let libraries = libraries();
    let source = "runtime/c/tests/programs/documents.cc";
    for (compiler, standard) in [("c++", "-std=c++17"), ("clang++", "-std=c++20")] {
        let flags = [standard, "-pedantic"];
        let Some(linked) = embedding(test, compiler, &flags, source, "program-cxx") else {
            continue;
        };
        let said = run(&linked, &libraries);
        assert!(said.contains("custom_call_target=\"tiled_add\""), "{said}");
        assert!(said.ends_with("\ndone\n"), "{said}");
    }
}

#[test]
fn a_cxx_program_builds_prints_and_runs_a_program() {
    let test = "a_cxx_program_builds_prints_and_runs_a_program";
    let libraries = libraries();
    let archive = libraries.join("libxla_ffi_runtime.a");
    let source = "c_examples/embed/program.cc";
    let flags = [
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Iinclude",
        source,
    ];
    let folder = format!("-L{}", libraries.display());
    let both = [
        [&flags[..], &[archive.to_str().unwrap()], &SYSTEM].concat(),
        [&flags[..], &[&folder, "-lxla_ffi_runtime"]].concat(),
    ];
    for arguments in both {
        let Some(linked) = program(test, "c++", "program-embed-cxx", &arguments) else {
            return;
        };
        let said = run(&linked, &libraries);
        assert!(said.starts_with("HloModule tiled, "), "{said}");
        assert!(said.ends_with("}\n1000 1127\n"), "{said}");
    }
}

/// Each header can be included without the other headers, and repeatedly.
#[test]
fn headers_stand_alone() {
    let test = "headers_stand_alone";
    let mut source = String::new();
    for header in [
        "xla/xla_data.pb.h",
        "xla/statusor.h",
        "xla/shape.h",
        "xla/layout_util.h",
        "xla/shape_util.h",
        "xla/literal.h",
        "xla/literal_util.h",
        "xla/hlo/builder/xla_computation.h",
        "xla/hlo/builder/xla_builder.h",
        "xla/client/xla_computation.h",
        "xla/client/xla_builder.h",
        "xla_ffi/embedded.h",
        "xla/ffi/execution_context.h",
        "xla_ffi/plugin.h",
        "xla_ffi/pjrt.h",
        "xla_ffi/invocation.h",
        "xla_ffi/program.h",
        "xla/service/custom_call_status.h",
        "xla/service/custom_call_target_registry.h",
    ] {
        assert!(
            repository().join("include").join(header).is_file(),
            "{header}"
        );
        source = format!("#include \"{header}\"\n#include \"{header}\"\nint main() {{}}\n");
        // If only this header is included, the type name that XLA's documents use without a namespace is in the
        // namespace `xla`.
        let source = match header {
            "xla/service/custom_call_status.h" => {
                format!("{source}void target(void*, void**, xla::XlaCustomCallStatus*);\n")
            }
            _ => source.clone(),
        };
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header.cc");
        std::fs::write(&file, source).unwrap();
        let flags = [
            "-std=c++17",
            "-Wall",
            "-Wextra",
            "-pedantic",
            "-Werror",
            "-Iinclude",
        ];
        let all = [&flags[..], &["-fsyntax-only", file.to_str().unwrap()]].concat();
        if program(test, "c++", "header-alone", &all).is_none() {
            return;
        }
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header.c");
    std::fs::write(&file, &source).unwrap();
    let flags = [
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Werror",
        "-Iinclude",
    ];
    let all = [&flags[..], &["-fsyntax-only", file.to_str().unwrap()]].concat();
    program(test, "cc", "header-alone-c", &all);
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

/// The server in C++ uses deadlines, a reloaded library, metrics and eight threads.
#[test]
fn a_server_in_cxx() {
    let test = "a_server_in_cxx";
    let libraries = libraries();
    let flags = ["-std=c++17", "-O2"];
    let source = "c_examples/embed_project/server.cc";
    let Some(server) = embedding(test, "c++", &flags, source, "server-cc") else {
        return;
    };
    let library = xla_ffi_testing::rust_examples().join("libexecution.so");
    let done = Command::new(server)
        .arg(library)
        .env("LD_LIBRARY_PATH", libraries)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}");
    let counts = said
        .lines()
        .filter(|line| line.contains("in flight 0, succeeded "));
    assert_eq!(counts.count(), 2, "{said}");
    assert!(said.contains("failed (4) "), "{said}");
}
