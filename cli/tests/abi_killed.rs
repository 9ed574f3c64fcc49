//! `xla-ffi abi check` that is killed takes the compiler with it that it has started.
#![cfg(target_os = "linux")]

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use xla_ffi_testing::root;

#[test]
fn a_killed_check_leaves_no_compiler_behind() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = folder.path().join("c++");
    let started = folder.path().join("started");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then exit 0; fi\necho $$ > {0}.part && mv {0}.part {0}\nexec sleep 600\n",
        started.display()
    );
    std::fs::write(&compiler, script).unwrap();
    std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .args(["abi", "check", "--header", "include/xla/ffi/api/c_api.h"])
        .current_dir(root())
        .env("CXX", &compiler)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let wait = |what: &str, is: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(20);
        while !is() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait("the compiler is not started", &|| started.exists());
    let compiler = std::fs::read_to_string(&started).unwrap();
    let compiler = compiler.trim();
    check.kill().unwrap();
    check.wait().unwrap();
    // What is dead and not yet collected has no memory map left.
    let maps = format!("/proc/{compiler}/maps");
    wait("the compiler goes on", &|| {
        !std::fs::read(&maps).is_ok_and(|maps| !maps.is_empty())
    });
}
