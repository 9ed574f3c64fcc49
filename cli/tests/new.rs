//! `xla-ffi new`: the projects build and pass their own tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::skip;

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("new-{name}"));
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn new(folder: &Path, rest: &[&str]) -> Output {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg("new")
        .args(rest)
        .current_dir(folder)
        .env("XLA_FFI_SDK", sdk)
        .output()
        .unwrap()
}

/// `cargo test` in a new project, in the folder and with the profile of these tests: what both depend
/// on is compiled already.
fn cargo_test() -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["test", "--offline"])
        .env("CARGO_TARGET_DIR", xla_ffi_testing::target_folder())
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
    command
}

fn succeeds(command: &mut Command) -> String {
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        out.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&out.stderr)
    );
    text
}

fn present(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|out| out.status.success())
}

#[test]
fn c_and_cxx_projects_build_and_run_on_every_revision() {
    let folder = folder("make");
    for (language, compiler) in [("c", "cc"), ("cpp", "c++")] {
        if !present("make") || !present(compiler) {
            skip(
                &format!("c_and_cxx_projects ({language})"),
                &format!("no make or no {compiler}"),
            );
            continue;
        }
        let name = format!("my-{language}");
        assert!(new(&folder, &[&name, "--lang", language]).status.success());
        let text = succeeds(
            Command::new("make")
                .args(["-s", "test"])
                .arg(format!("XLA_FFI={}", env!("CARGO_BIN_EXE_xla-ffi")))
                .current_dir(folder.join(&name)),
        );
        assert_eq!(text.lines().count(), 11, "{text}");
    }
}

#[test]
fn a_rust_project_passes_its_own_tests() {
    let folder = folder("rust");
    assert!(new(&folder, &["my-rust"]).status.success());
    let text = succeeds(cargo_test().current_dir(folder.join("my-rust")));
    assert!(text.contains("scales ... ok"), "{text}");
}

#[test]
fn a_rust_project_for_gpus_passes_its_tests_without_one() {
    let folder = folder("rust-cuda");
    assert!(new(&folder, &["my-gpu", "--cuda"]).status.success());
    // The lock of this workspace names versions that are at hand.
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    std::fs::copy(lock, folder.join("my-gpu/Cargo.lock")).unwrap();
    let text = succeeds(cargo_test().current_dir(folder.join("my-gpu")));
    assert!(
        text.contains("wrong_operands_are_told_by_name ... ok"),
        "{text}"
    );
    let out = new(&folder, &["no-c", "--cuda", "--lang", "c"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("--lang cpp"));
}

#[test]
fn a_cxx_project_for_gpus_builds_where_nvcc_is() {
    let test = "a_cxx_project_for_gpus";
    let nvcc = std::env::var_os("XLA_FFI_NVCC").unwrap_or_else(|| "nvcc".into());
    let nvcc = nvcc.to_string_lossy().into_owned();
    if !present("make") || !present(&nvcc) {
        return skip(test, "no make or no nvcc (XLA_FFI_NVCC)");
    }
    let folder = folder("cpp-cuda");
    let made = new(&folder, &["my-gpu", "--cuda", "--lang", "cpp"]);
    assert!(made.status.success());
    let text = succeeds(
        Command::new("make")
            .args(["-s", "test"])
            .arg(format!("XLA_FFI={}", env!("CARGO_BIN_EXE_xla-ffi")))
            .arg(format!("NVCC={nvcc}"))
            .current_dir(folder.join("my-gpu")),
    );
    assert!(text.contains("stream"), "{text}");
}

#[test]
fn nothing_is_overwritten_and_names_are_checked() {
    let folder = folder("refused");
    let refused = |rest: &[&str], text: &str| {
        let out = new(&folder, rest);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains(text), "{said}");
    };
    std::fs::create_dir(folder.join("there")).unwrap();
    refused(&["there"], "exists");
    refused(&["2bad"], "library");
    refused(&["good", "--sdk", "there"], "handler.h");
    assert_eq!(
        new(&folder, &["good", "--lang", "fortran"]).status.code(),
        Some(2)
    );
    assert!(!folder.join("good").exists());
}
