//! Builds the C code of the target `shape-proto`, in which undefined behaviour is an error. For the fuzzer, the code
//! also has coverage counters if clang is available.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/shape_proto.c");
    println!("cargo:rerun-if-changed=../../include");
    let mut build = cc::Build::new();
    build
        .file("src/shape_proto.c")
        .include("../../include")
        .flag("-fsanitize=undefined")
        .flag("-fsanitize-undefined-trap-on-error");
    let fuzzed = std::env::var_os("CARGO_FEATURE_LIBFUZZER").is_some();
    if fuzzed && Command::new("clang").arg("--version").output().is_ok() {
        build
            .compiler("clang")
            .flag("-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp");
    }
    build.compile("fuzz_shape_proto");
}
