//! Tests `xla-ffi stubs`, which runs the Python package `xla_ffi`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::compiler::shared_library;
use xla_ffi_testing::{root, skip};

fn stubs(lib: &Path, rest: &[&str], package: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg("stubs")
        .args(rest)
        .arg(lib)
        .env("PYTHONPATH", package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn stubs_come_from_the_package_of_the_named_python() {
    let test = "stubs_come_from_the_package_of_the_named_python";
    let Some(python) = std::env::var_os("XLA_FFI_PYTHON").map(PathBuf::from) else {
        return skip(test, "XLA_FFI_PYTHON is not set");
    };
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("c_examples/rms_norm.c");
    let flags = [
        format!("-I{}", root().join("include").display()),
        "-lm".into(),
    ];
    let Some(library) = shared_library(folder.path(), test, &source, "rms_norm", &flags) else {
        return;
    };
    let package = root().join("python");
    let python = python.to_str().unwrap();

    let out = stubs(&library, &["--python", python], &package);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{}", said(&out));
    assert!(text.contains("class RmsNorm(xla_ffi.Library):"), "{text}");
    assert!(text.contains("eps: t.Float = 1e-05"), "{text}");

    let file = folder.path().join("rms_norm.pyi");
    let rest = ["--python", python, "-o", file.to_str().unwrap()];
    let out = stubs(&library, &rest, &package);
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);

    std::fs::write(&library, "no library").unwrap();
    let out = stubs(&library, &["--python", python], &package);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        said(&out).contains("ELF, Mach-O or PE library"),
        "{}",
        said(&out)
    );
    assert!(!said(&out).contains("error: error"), "{}", said(&out));

    let out = stubs(&library, &["--python", python], folder.path());
    assert_eq!(out.status.code(), Some(1));
    assert!(
        said(&out).contains("does not have the package xla_ffi"),
        "{}",
        said(&out)
    );
}

#[test]
fn what_is_no_python_is_told() {
    let library = Path::new("/nowhere/libmine.so");
    for (program, told) in [
        ("true", "without writing a stub file"),
        ("false", "false ended with exit status: 1"),
    ] {
        let out = stubs(library, &["--python", program], Path::new("."));
        assert_eq!(out.status.code(), Some(1), "{program}");
        assert!(said(&out).contains(told), "{}", said(&out));
    }
}
