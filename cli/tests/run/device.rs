//! Tests `run --device cuda` with a simulated CUDA driver. The driver's device memory is host memory, so handlers for
//! the CPU can use it.

use super::{library, tmp, xla_ffi};
use std::process::Command;
use xla_ffi_testing::compiler::cuda_driver;
use xla_ffi_testing::{rust_examples, skip};

const ADD_ONE: [&str; 6] = [
    "--handler",
    "add_one",
    "--arg",
    "f32[3]=1,2,-3",
    "--ret",
    "f32[3]",
];

#[test]
fn without_a_driver_libcuda_is_named() {
    // `xla-ffi` uses the same list of libraries to find the CUDA driver.
    let listed = Command::new("ldconfig").arg("-p").output();
    if listed.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("libcuda.so")) {
        skip(
            "without_a_driver_libcuda_is_named",
            "this machine has NVIDIA's driver",
        );
        return;
    }
    let Some(lib) = library("without_a_driver_libcuda_is_named") else {
        return;
    };
    let out = xla_ffi("run", &lib, &[&ADD_ONE[..], &["--device", "cuda"]].concat());
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(
        said.contains("libcuda.so.1 not found: this machine has no NVIDIA driver"),
        "{said}"
    );
    assert!(out.stdout.is_empty());
}

#[test]
fn calls_on_a_device_are_checked_as_on_the_host() {
    const TEST: &str = "calls_on_a_device_are_checked_as_on_the_host";
    let folder = tmp().join("driver");
    let (Some(lib), Some(_)) = (library(TEST), cuda_driver(&folder, TEST)) else {
        return;
    };
    let run = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .env("LD_LIBRARY_PATH", &folder)
            .arg("run")
            .arg(&lib)
            .args(args)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (out.status.code(), text(out.stdout), text(out.stderr))
    };
    for device in ["cuda", "cuda:1"] {
        for revision in ["r0", "r10"] {
            let more = ["--device", device, "--revision", revision];
            let (code, told, said) = run(&[&ADD_ONE[..], &more].concat());
            assert_eq!(code, Some(0), "{said}");
            assert_eq!(told, "ret0: f32[3] [2, 3, -2]\n");
        }
    }
    let fails = |wanted: i32, args: &[&str], part: &str| {
        let (code, told, said) = run(args);
        assert_eq!(code, Some(wanted), "{args:?}: {said}");
        assert!(told.is_empty() && said.contains(part), "{args:?}: {said}");
    };
    fails(
        1,
        &[&ADD_ONE[..], &["--device", "cuda:7"]].concat(),
        "cuDeviceGet(7): CUDA_ERROR_INVALID_DEVICE (101)",
    );
    let half = ["--handler", "half", "--ret", "f32[6]", "--device", "cuda"];
    fails(
        1,
        &half,
        "result 0 (f32[6]): the handler never wrote elements 3 to 5",
    );
    let overrun = [
        "--handler",
        "overrun",
        "--ret",
        "f32[1]",
        "--device",
        "cuda",
        "--allow-unwritten",
    ];
    fails(
        1,
        &overrun,
        "the bytes after result 0 (f32[1]) were written",
    );
    fails(1, &["--handler", "crash", "--device", "cuda"], "SIGSEGV");
    for (option, said) in [
        (&["--threads", "2"][..], "CUDA devices have no thread pool"),
        (&["--scratch"], "requires --device host"),
        (&["--engine", "pjrt:x.so"], "--device"),
        (&["--replay", "x"], "--device host only"),
    ] {
        let args = [&["--handler", "half", "--device", "cuda"], option].concat();
        fails(2, &args, said);
    }
}

#[test]
fn the_authors_platforms_are_kept_to() {
    let folder = tmp().join("driver");
    if cuda_driver(&folder, "the_authors_platforms_are_kept_to").is_none() {
        return;
    }
    let lib = rust_examples().join("librms_norm.so");
    let out = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .env("LD_LIBRARY_PATH", &folder)
        .arg("run")
        .arg(&lib)
        .args([
            "--handler",
            "rms_norm",
            "--arg",
            "f32[4]=ones",
            "--device",
            "cuda",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(
        said.contains("rms_norm: expected a handler for cuda, got one for cpu"),
        "{said}"
    );
}
