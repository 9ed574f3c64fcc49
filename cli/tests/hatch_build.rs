//! Tests `hatch_build.py`, the build hook for the wheel of a new project, with simulated versions of cargo and
//! hatchling.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::skip;

/// A shell script that replaces cargo, and reports that the library was built in an unusual folder.
const CARGO: &str = r#"#!/bin/sh
mkdir -p elsewhere/triple/release
echo "$CONTENT" > elsewhere/triple/release/$LIBRARY
echo "   Compiling mine with ${NVCC:-no nvcc}" >&2
echo '{"reason":"compiler-artifact","target":{"name":"other"},"filenames":["/nowhere/libother.rlib"]}'
echo '{"reason":"compiler-artifact","target":{"name":"mine"},"filenames":["'$PWD/elsewhere/triple/release/$LIBRARY'"]}'
echo '{"reason":"build-finished","success":true}'
"#;

/// A Python program that runs the hook as hatchling does on a given system, and prints the wheel's tag.
const HOOK: &str = r#"
import os, platform, runpy, sys, sysconfig
sys.path.insert(0, ".")
if len(sys.argv) > 1:
    sys.platform = "darwin"
    sysconfig.get_platform = lambda: sys.argv[1]
    platform.machine = lambda: sys.argv[2]
hook = runpy.run_path("hatch_build.py")["CustomBuildHook"]()
hook.root = os.getcwd()
data = {"artifacts": []}
hook.initialize("standard", data)
print(data["tag"])
"#;

/// Creates a project with the build hook. Without Python, reports a skip and returns `None`.
fn project(name: &str) -> Option<PathBuf> {
    let test = format!("hatch_build.{name}");
    if Command::new("python3").arg("--version").output().is_err() {
        skip(&test, "no python3");
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("hatch")
        .join(name);
    let _ = std::fs::remove_dir_all(&folder);
    let write = |file: &str, text: &str| {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let template = include_str!("../templates/rust/hatch_build.py");
    write("hatch_build.py", &template.replace("@NAME@", "mine"));
    write("run.py", HOOK);
    write("bin/cargo", CARGO);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.join("bin/cargo"), executable).unwrap();
    write("python/mine/__init__.py", "");
    for package in ["", "/builders", "/builders/hooks", "/builders/hooks/plugin"] {
        write(&format!("hatchling{package}/__init__.py"), "");
    }
    let interface = "class BuildHookInterface:\n    pass\n";
    write("hatchling/builders/hooks/plugin/interface.py", interface);
    Some(folder)
}

fn build(folder: &Path, content: &str, system: &[&str], target: &str) -> Output {
    let path = std::env::var("PATH").unwrap();
    let suffix = if system.is_empty() { "so" } else { "dylib" };
    Command::new("python3")
        .args(["-B", "-S", "run.py"])
        .args(system)
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", folder.join("bin").display()))
        .env("CONTENT", content)
        .env("LIBRARY", format!("libmine.{suffix}"))
        .env("CARGO_BUILD_TARGET", target)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("GLIBC")
        .env_remove("NVCC")
        .output()
        .unwrap()
}

#[track_caller]
fn tag(done: &Output) -> String {
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

/// Tests the tag of a wheel for macOS. Python may support two architectures, but the tag must name the only
/// architecture of the library.
#[test]
fn a_wheel_for_macos_names_the_architecture_of_its_library() {
    let Some(folder) = project("macos") else {
        return;
    };
    for (system, machine, target, wanted) in [
        ("macosx-10.9-universal2", "arm64", "", "macosx_11_0_arm64"),
        ("macosx-12.3-universal2", "arm64", "", "macosx_12_3_arm64"),
        ("macosx-10.9-universal2", "x86_64", "", "macosx_10_9_x86_64"),
        (
            "macosx-10.9-universal2",
            "arm64",
            "x86_64-apple-darwin",
            "macosx_10_9_x86_64",
        ),
        ("macosx-14.0-arm64", "arm64", "", "macosx_14_0_arm64"),
    ] {
        let done = build(&folder, "", &[system, machine], target);
        assert_eq!(tag(&done), format!("py3-none-{wanted}"));
    }
}

/// Tests that the hook uses the nvcc package of a project for GPUs, if the package is installed. Other projects must
/// build without nvcc.
#[test]
fn the_build_of_a_project_for_gpus_finds_nvcc() {
    let Some(folder) = project("nvcc") else {
        return;
    };
    let compiles_with = |nvcc: &str| {
        let done = build(&folder, "", &[], "");
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{told}");
        assert!(
            told.contains(&format!("Compiling mine with {nvcc}\n")),
            "{told}"
        );
    };
    compiles_with("no nvcc");
    let bin = folder.join("nvidia/cu13/bin");
    std::fs::create_dir_all(&bin).unwrap();
    compiles_with("no nvcc");
    std::fs::write(bin.join("nvcc"), "").unwrap();
    compiles_with(bin.join("nvcc").to_str().unwrap());
}
