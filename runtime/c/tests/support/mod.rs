//! Builds C and C++ programs that are linked with the runtime, with the headers and libraries that users get.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) use xla_ffi_testing::skip;

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds the static and the shared library and returns their folder. The shared library is also linked under its
/// SONAME.
pub(crate) fn libraries() -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let target = tmp.parent().expect("the target folder");
    let done = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--offline",
            "--package",
            "xla-ffi-runtime-c",
            "--target-dir",
        ])
        .arg(target)
        .current_dir(repository())
        .output()
        .expect("cargo starts");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let folder = target.join("debug");
    let name = folder.join("libxla_ffi_runtime.so.0");
    // Several tests create the same link, so an existing link is correct.
    match std::os::unix::fs::symlink("libxla_ffi_runtime.so", &name) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => panic!("{error}"),
        _ => folder,
    }
}

/// Compiles and links a program. If no compiler is available, prints a message and returns `None`.
pub(crate) fn program(
    test: &str,
    compiler: &str,
    name: &str,
    arguments: &[&str],
) -> Option<PathBuf> {
    if Command::new(compiler).arg("--version").output().is_err() {
        skip(test, &format!("no {compiler}"));
        return None;
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let done = Command::new(compiler)
        .args(arguments)
        .arg("-o")
        .arg(&out)
        .current_dir(repository())
        .output()
        .expect("the compiler starts");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    Some(out)
}

pub(crate) fn run(program: &Path, libraries: &Path) -> String {
    let done = Command::new(program)
        .env("LD_LIBRARY_PATH", libraries)
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{:?}: {said}", done.status);
    String::from_utf8_lossy(&done.stdout).into_owned()
}

pub(crate) const SYSTEM: [&str; 4] = ["-lstdc++", "-lpthread", "-ldl", "-lm"];
