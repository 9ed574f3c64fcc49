//! What is killed takes the programs with it that it has started: compilers, and what they start, and Pythons; and its
//! scratch folders.
#![cfg(target_os = "linux")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use xla_ffi_testing::compiler::works;
use xla_ffi_testing::{root, skip};

/// SIGHUP, SIGINT, SIGTERM, SIGKILL, but for what whoever runs the tests has all his programs ignore, as `nohup` does.
fn signals() -> impl Iterator<Item = i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
    let all = [1, 2, 15, 9].into_iter();
    all.filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

fn wait(what: &str, is: &dyn Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What is dead and not yet collected has no memory map left.
fn lives(process: &str) -> bool {
    std::fs::read(format!("/proc/{process}/maps")).is_ok_and(|maps| !maps.is_empty())
}

/// A program in `folder` that starts one which sleeps, writes its number and that one's into `started`, and waits.
fn sleeper(folder: &Path) -> (PathBuf, PathBuf) {
    let (program, started) = (folder.join("sleeper"), folder.join("started"));
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then exit 0; fi\nsleep 600 &\n\
         echo $$ $! > {0}.part && mv {0}.part {0}\nwait\n",
        started.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (program, started)
}

fn signal(process: u32, signal: i32) {
    let process = process.to_string();
    let sent = Command::new("kill")
        .args([format!("-{signal}"), process])
        .status();
    assert!(sent.unwrap().success());
}

/// Runs the command, sends it each signal once `started` is there, and looks for what is left.
fn leaves_nothing(command: &dyn Fn() -> Command, started: &Path, scratch: &Path) {
    for number in signals() {
        let mut killed = command()
            .env("TMPDIR", scratch)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait("nothing is started", &|| started.exists());
        let processes = std::fs::read_to_string(started).unwrap();
        std::fs::remove_file(started).unwrap();
        signal(killed.id(), number);
        assert_eq!(killed.wait().unwrap().signal(), Some(number));
        wait("what was started goes on", &|| {
            !processes.split_whitespace().any(lives)
        });
        wait("the scratch folder is left", &|| {
            std::fs::read_dir(scratch).unwrap().next().is_none()
        });
    }
}

#[test]
fn a_killed_check_leaves_no_compiler_behind() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let (compiler, started) = sleeper(folder.path());
    let check = || {
        let mut check = Command::new(env!("CARGO_BIN_EXE_xla-ffi"));
        check
            .args(["abi", "check", "--header", "include/xla/ffi/api/c_api.h"])
            .current_dir(root())
            .env("CXX", &compiler);
        check
    };
    leaves_nothing(&check, &started, scratch.path());
}

#[test]
fn killed_stubs_leave_no_python_behind() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let (python, started) = sleeper(folder.path());
    let stubs = || {
        let mut stubs = Command::new(env!("CARGO_BIN_EXE_xla-ffi"));
        stubs.args(["stubs", "lib.so", "--python"]).arg(&python);
        stubs
    };
    leaves_nothing(&stubs, &started, scratch.path());
}

/// GCC's driver starts the compiler proper, which waits here for a writer that never comes.
#[test]
fn a_compiler_that_sleeps_ends_with_a_killed_check() {
    let test = "a_compiler_that_sleeps_ends_with_a_killed_check";
    if !works("g++") {
        return skip(test, "g++ is not there");
    }
    let folder = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let header = folder.path().join("c_api.h");
    std::fs::write(&header, "#include \"fifo\"\n").unwrap();
    for number in signals() {
        let mut check = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .args(["abi", "check", "--reader", "dwarf", "--header"])
            .arg(&header)
            .env("TMPDIR", scratch.path())
            .env("CXX", "g++")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let found = || readers(scratch.path());
        wait("the compiler is not started", &|| !found().is_empty());
        let compilers = found();
        signal(check.id(), number);
        assert_eq!(check.wait().unwrap().signal(), Some(number));
        wait("the compiler goes on", &|| {
            !compilers.iter().any(|process| lives(process))
        });
        wait("the scratch folder is left", &|| {
            std::fs::read_dir(scratch.path()).unwrap().next().is_none()
        });
    }
}

/// The compilers proper whose command line names a file in `folder`.
fn readers(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let all = std::fs::read_dir("/proc").unwrap();
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_one = |number: &String| {
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.split('\0')
            .next()
            .unwrap_or_default()
            .ends_with("cc1plus")
            && line.contains(&folder)
    };
    numbers.filter(is_one).collect()
}
