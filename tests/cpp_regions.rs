//! The C++ headers find out by two shortcuts whether operands can be used: numbers that are looked at once, and an order in
//! which the operands lay before. `cpp_regions.cc` compares both with what they stand for.

use std::process::Command;
use xla_ffi_testing::{compiler::cpp_compilers, root, target_folder};

#[test]
fn what_is_found_at_once_is_what_is_found_one_by_one() {
    let folder = target_folder().join("tmp/cpp-regions");
    std::fs::create_dir_all(&folder).expect("the test's folder");
    for compiler in cpp_compilers("what_is_found_at_once_is_what_is_found_one_by_one") {
        for level in ["-O0", "-O3"] {
            let program = folder.join(format!("{compiler}{level}"));
            let built = Command::new(compiler)
                .args([
                    "-std=c++17",
                    "-Wall",
                    "-Wextra",
                    "-Wpedantic",
                    "-Werror",
                    level,
                    "-I",
                ])
                .arg(root().join("include"))
                .arg(root().join("tests/cpp_regions.cc"))
                .arg("-o")
                .arg(&program)
                .output()
                .expect("the compiler runs");
            let said = String::from_utf8_lossy(&built.stderr);
            assert!(built.status.success(), "{compiler} {level}: {said}");
            let ran = Command::new(&program).output().expect("the program runs");
            let said = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success(), "{compiler} {level}: {said}");
        }
    }
}
