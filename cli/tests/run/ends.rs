//! How `run` ends where the command line, the library or the handler is wrong.

use crate::*;

#[test]
fn command_lines_that_do_not_parse_end_with_2() {
    let Some(lib) = library("command_lines_that_do_not_parse_end_with_2") else {
        return;
    };
    for arg in [
        "f33[1]=1",
        "f32[2]=1",
        "f32[1]=1,2",
        "f32[-1]=ones",
        "f32[99999999999999999999]=ones",
        "f32[4611686018427387904,8]=ones",
        "f32[1099511627776,1024]=zeros",
        "s8[1]=200",
        "f32[1]",
        "",
    ] {
        let said = fails(
            2,
            &lib,
            &["--handler", "add_one", "--arg", arg, "--ret", "f32[1]"],
        );
        assert!(said.contains("--arg"), "{said}");
    }
    fails(2, &lib, &["--handler", "add_one", "--ret", "f32[1]=1"]);
    fails(2, &lib, &["--handler", "add_one", "--revision", "r11"]);
    fails(2, &lib, &["--handler", "add_one", "--attrs", "{a = [1]}"]);
    fails(2, &lib, &["--handler", "run=add_one"]);
    fails(2, &lib, &["--engine", "other"]);
}

#[test]
fn what_is_no_handler_or_no_library_ends_with_1() {
    let Some(lib) = library("what_is_no_handler_or_no_library_ends_with_1") else {
        return;
    };
    let said = |rest: &[&str]| fails(1, &lib, rest);
    assert!(said(&[]).contains("--handler"));
    assert!(said(&["--handler", "nope"]).contains("nope"));
    assert!(said(&["--handler", "newer"]).contains("newer ABI"));
    assert!(said(&["--handler", "silent"]).contains("not answered"));
    let missing = tmp().join("missing.so");
    assert!(fails(1, &missing, &["--handler", "f"]).contains("missing.so"));
    let text = tmp().join("text.so");
    std::fs::write(&text, "this is no library").unwrap();
    assert!(fails(1, &text, &["--handler", "f"]).contains("text.so"));
    let head = tmp().join("head.so");
    std::fs::write(&head, &std::fs::read(&lib).unwrap()[..4000]).unwrap();
    assert!(fails(1, &head, &["--handler", "f"]).contains("head.so"));
    fails(1, &tmp(), &["--handler", "f"]);
}

#[test]
fn handlers_that_misbehave_are_errors() {
    let Some(lib) = library("handlers_that_misbehave_are_errors") else {
        return;
    };
    let said = |rest: &[&str]| fails(1, &lib, rest);
    assert!(said(&["--handler", "crash_in_metadata"]).contains("crashed"));
    assert!(said(&["--handler", "hang_in_metadata"]).contains("did not answer"));
    assert!(said(&["--handler", "crash"]).contains("signal 11"));
    assert!(said(&["--handler", "give_up"]).contains("signal 6"));
    assert!(said(&["--handler", "leave"]).contains("ended its process, with exit status: 0"));
    assert!(said(&["--handler", "leave_with_2"]).contains("exit status: 2"));
    // Whatever the status: it says more than it.
    assert!(said(&["--handler", "leave_with_187"]).contains("exit status: 187"));
    assert!(said(&["--handler", "close_output"]).contains("closed its process's standard output"));
    let hang = ["--handler", "hang", "--time-limit", "1"];
    assert!(said(&hang).contains("did not return within 1s"));
    let overrun = ["--handler", "overrun", "--ret", "f32[1]"];
    assert!(said(&overrun).contains("behind result 0"));
    let wrong = [
        "--handler",
        "add_one",
        "--arg",
        "s32[1]=1",
        "--ret",
        "f32[1]",
    ];
    assert_eq!(
        said(&wrong),
        "error: INVALID_ARGUMENT: argument 'x': expected dtype F32\n"
    );
    let hang = [
        "--handler",
        "hang_in_metadata",
        "--revision",
        "r0",
        "--time-limit",
        "1",
    ];
    assert!(said(&hang).contains("did not return"));
}

/// Whoever kills `run` kills the handler's process with it.
#[test]
#[cfg(target_os = "linux")]
fn a_killed_run_leaves_no_process_behind() {
    let Some(lib) = library("a_killed_run_leaves_no_process_behind") else {
        return;
    };
    let mut parent = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg("run")
        .arg(&lib)
        .args(["--handler", "hang"])
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", parent.id());
    let begin = Instant::now();
    let end = begin + Duration::from_secs(20);
    let child = loop {
        let listed = std::fs::read_to_string(&children).unwrap();
        if let Some(child) = listed.split_whitespace().next() {
            // In the handler it sleeps. Kernels that tell nobody where have had the time to get there.
            let wait = std::fs::read_to_string(format!("/proc/{child}/wchan")).unwrap();
            if wait.contains("nanosleep") || begin.elapsed() > Duration::from_secs(3) {
                break child.to_owned();
            }
        }
        assert!(Instant::now() < end, "no child that hangs");
        std::thread::sleep(Duration::from_millis(20));
    };
    parent.kill().unwrap();
    parent.wait().unwrap();
    // What is dead and not yet collected has no memory map left.
    let alive = || std::fs::read(format!("/proc/{child}/maps")).is_ok_and(|maps| !maps.is_empty());
    let end = Instant::now() + Duration::from_secs(5);
    while alive() {
        assert!(Instant::now() < end, "process {child} goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_goes_wrong_outside_of_the_call_is_an_error_too() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let lib = tmp().join("libmisuse.so");
    let done = Command::new("c++")
        .args(["-std=c++17", "-shared", "-fPIC", "-w", "-pthread"])
        .arg(format!("-I{}", root.join("include").display()))
        .arg(root.join("runtime/tests/cxx/misuse.cc"))
        .arg("-o")
        .arg(&lib)
        .output();
    let Ok(done) = done else {
        skip(
            "what_goes_wrong_outside_of_the_call_is_an_error_too",
            "no C++ compiler",
        );
        return;
    };
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let state = [
        "--handler",
        "execute=does_nothing,instantiate=leaves_state",
        "--type",
        "Thrown=thrown_id,thrown_info",
    ];
    let errors = fails(1, &lib, &state);
    assert!(
        errors.contains("unwound") && errors.contains("deleter"),
        "{errors}"
    );
}
