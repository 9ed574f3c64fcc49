//! Tests that the projects of `xla-ffi new` build and pass their own tests.

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

/// Returns the command `cargo test` for a new project. The command uses the target folder and profile of this
/// workspace, in which dependencies are already compiled.
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

/// Tests that projects in C and C++ compile and run. The test runs the compiler directly; `cargo xtask ship` builds
/// projects with CMake, pip and uv, and calls them in JAX.
#[test]
fn c_and_cxx_projects_compile_and_run_on_every_revision() {
    let folder = folder("native");
    for (language, compiler, extension) in [("c", "cc", "c"), ("cpp", "c++", "cc")] {
        if !present(compiler) {
            skip(
                &format!("c_and_cxx_projects ({language})"),
                &format!("no {compiler}"),
            );
            continue;
        }
        let name = format!("my-{language}");
        assert!(new(&folder, &[&name, "--lang", language]).status.success());
        let project = folder.join(&name);
        let library = project.join("library.so");
        succeeds(
            Command::new(compiler)
                .args(["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"])
                .args(["-fvisibility=hidden", "-I"])
                .arg(xla_ffi_testing::root().join("include"))
                .arg(project.join(format!("src/my_{language}.{extension}")))
                .arg("-o")
                .arg(&library),
        );
        for revision in 0..=10 {
            let text = succeeds(
                Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
                    .arg("run")
                    .arg(&library)
                    .args(["--handler", "scale", "--arg", "f32[3]=1,2,3"])
                    .args(["--ret", "f32[3]", "--attrs", "{factor = 2.0 : f32}"])
                    .args(["--revision", &format!("r{revision}")]),
            );
            assert!(text.contains("[2, 4, 6]"), "{text}");
        }
        let told = succeeds(
            Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
                .arg("inspect")
                .arg(&library),
        );
        assert!(told.contains(&format!("library my_{language}")), "{told}");
    }
}

/// Tests that files which users commit contain no paths of this machine, because they must work on other machines.
#[test]
fn what_is_committed_names_no_checkout() {
    let folder = folder("committed");
    for (name, rest) in [
        ("one", &["--lang", "rust"][..]),
        ("two", &["--lang", "cpp", "--license", "mit"]),
        ("three", &["--lang", "cpp", "--cuda", "--license", "none"]),
    ] {
        let mut arguments = vec![name];
        arguments.extend(rest);
        assert!(new(&folder, &arguments).status.success());
        let project = folder.join(name);
        let mut found = 0;
        for file in files(&project) {
            let text = std::fs::read_to_string(&file).unwrap();
            let mut parts = text.split('@').skip(1);
            // Placeholders have a capital letter after `@`, unlike decorators in Python and versions of actions.
            let is_left = parts.any(|part| part.starts_with(|c: char| c.is_ascii_uppercase()));
            assert!(!is_left, "{}: {text}", file.display());
            if file.starts_with(project.join(".cargo")) {
                continue;
            }
            found += 1;
            let root = xla_ffi_testing::root();
            assert!(!text.contains(root.to_str().unwrap()), "{}", file.display());
        }
        assert!(found >= 8, "{found} files");
        assert_eq!(project.join("LICENSE-MIT").exists(), name != "three");
        assert_eq!(project.join("LICENSE-APACHE").exists(), name == "one");
    }
    let ignored = std::fs::read_to_string(folder.join("one/.gitignore")).unwrap();
    assert!(ignored.lines().any(|line| line == "/.cargo"), "{ignored}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let paths = entries.map(|entry| entry.path());
    let found = paths.flat_map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    });
    found.collect()
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
    // With this lock file, cargo uses versions of dependencies that are available offline.
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    std::fs::copy(lock, folder.join("my-gpu/Cargo.lock")).unwrap();
    let mut test = cargo_test();
    // If the environment variable names an nvcc, the project compiles its kernels.
    if let Some(nvcc) = std::env::var_os("XLA_FFI_NVCC") {
        test.env("NVCC", nvcc);
    }
    let text = succeeds(test.current_dir(folder.join("my-gpu")));
    assert!(text.contains("wrong_operands_are_named ... ok"), "{text}");
    let out = new(&folder, &["no-c", "--cuda", "--lang", "c"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("--lang cpp"));
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
    refused(&["bad-"], "library name");
    refused(&["random"], "a module of Python");
    refused(&["good", "--sdk", "there"], "handler.h");
    assert_eq!(
        new(&folder, &["good", "--lang", "fortran"]).status.code(),
        Some(2)
    );
    assert!(!folder.join("good").exists());
}
