//! Tests the exit status of `run` for wrong command lines, libraries and handlers.

use crate::*;
use serde_json::Value;
use std::fs::File;

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

/// Tests that an option is refused if the revision has no function by which handlers can read the option's value.
#[test]
fn options_that_the_revision_lacks_end_with_2() {
    let Some(lib) = library("options_that_the_revision_lacks_end_with_2") else {
        return;
    };
    let call = [
        "--handler",
        "add_one",
        "--arg",
        "f32[1]=1",
        "--ret",
        "f32[1]",
    ];
    for (option, value, lacks, has) in [
        ("--run-id", "7", "r3", "r4"),
        ("--device-ordinal", "1", "r4", "r5"),
        ("--custom-options", "{a = 1}", "r9", "r10"),
    ] {
        let with = |revision| [&call[..], &[option, value, "--revision", revision]].concat();
        let said = fails(2, &lib, &with(lacks));
        let words = format!("{option} requires --revision {has} or later");
        assert!(said.contains(&words), "{said}");
        for command in ["bench", "check"] {
            let output = std::process::Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
                .arg(command)
                .arg(&lib)
                .args(with(lacks))
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(2), "{command} {option}");
        }
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .arg("run")
            .arg(&lib)
            .args(with(has))
            .output()
            .unwrap();
        assert_ne!(output.status.code(), Some(2), "{output:?}");
    }
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
    std::fs::write(&text, "not a library").unwrap();
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
    assert!(said(&["--handler", "crash"]).contains("signal 11"));
    assert!(said(&["--handler", "fill_stack"]).contains("crashed its process with signal"));
    assert!(said(&["--handler", "give_up"]).contains("signal 6"));
    assert!(said(&["--handler", "leave"]).contains("ended its process with exit status: 0"));
    assert!(said(&["--handler", "leave_with_2"]).contains("exit status: 2"));
    let hang = ["--handler", "hang", "--time-limit", "1"];
    assert!(said(&hang).contains("did not return within the time limit of 1s"));
    let overrun = ["--handler", "overrun", "--ret", "f32[1]"];
    assert!(said(&overrun).contains("after result 0"));
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

#[test]
fn no_call_takes_longer_than_its_limit() {
    let Some(lib) = library("no_call_takes_longer_than_its_limit") else {
        return;
    };
    let instantiated = "execute=nothing,instantiate=hang";
    for (command, handler) in [("run", "hang"), ("run", instantiated), ("bench", "hang")] {
        let limit = ["--handler", handler, "--time-limit", "1"];
        let begun = Instant::now();
        let done = xla_ffi(command, &lib, &limit);
        let errors = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{command} {handler}: {errors}");
        assert!(
            errors
                .contains("the handler did not return within the time limit of 1s and was stopped"),
            "{command} {handler}: {errors}"
        );
        let took = begun.elapsed();
        assert!(
            took < Duration::from_secs(4),
            "{command} {handler}: {took:?}"
        );
    }
    // With `--in-this-process`, the time limit does not apply, because a debugger may stop the process.
    let alone = [
        "--handler",
        "slow",
        "--time-limit",
        "1",
        "--in-this-process",
    ];
    succeeds(&lib, &alone);
    succeeds(&lib, &["--handler", "slow", "--time-limit", "3"]);
}

/// Tests that `bench` reports the cost of reading the clock, and does not attribute its own lack of memory to the
/// handler.
#[test]
fn bench_knows_its_own_costs() {
    let Some(lib) = library("bench_knows_its_own_costs") else {
        return;
    };
    let out = xla_ffi("bench", &lib, &["--handler", "nothing", "--format=json"]);
    let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let (clock, least) = (answer["clock"].as_u64(), answer["min"].as_u64());
    assert!(clock.is_some() && clock <= least, "{answer}");
    let out = xla_ffi("bench", &lib, &["--handler", "nothing"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains(" ns for reading the clock\n"), "{text}");
    if cfg!(not(target_os = "linux")) {
        return;
    }
    let mut shell = Command::new("sh");
    let command = r#"ulimit -v 600000; exec "$0" bench "$1" --handler nothing --calls 100000000"#;
    let shell = shell.args(["-c", command, env!("CARGO_BIN_EXE_xla-ffi")]);
    let done = shell.arg(&lib).output().unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("error: not enough memory for the times of 100000000 calls"),
        "{errors}"
    );
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

/// Runs `bench --format json` on a handler. Returns the JSON output, the exit status and standard error.
fn benched(lib: &Path, handler: &str) -> (Value, Option<i32>, String) {
    let out = tmp().join(format!("bench-{handler}.json"));
    let done = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg("bench")
        .arg(lib)
        .args(["--handler", handler, "--format=json", "--calls", "3"])
        .stdout(File::create(&out).unwrap())
        .output()
        .unwrap();
    let errors = String::from_utf8(done.stderr).unwrap();
    let text = std::fs::read_to_string(out).unwrap();
    let document = serde_json::from_str(&text);
    let document = document.unwrap_or_else(|error| panic!("{handler}: {error}: {text:?} {errors}"));
    (document, done.status.code(), errors)
}

#[test]
fn documents_say_how_the_process_ended() {
    let Some(lib) = library("documents_say_how_the_process_ended") else {
        return;
    };
    let ending = "the library, as its process ends, crashed its process with signal 6";
    for (handler, words) in [("crash_at_exit", ending), ("give_up", "signal 6")] {
        let (document, code, errors) = benched(&lib, handler);
        assert_eq!(code, Some(1), "{handler}: {errors}");
        assert_eq!(document["exit"]["code"], 1, "{handler}: {document}");
        let error = document["error"].as_str().unwrap();
        assert!(
            error.contains(words) && errors.contains(words),
            "{handler}: {error} {errors}"
        );
    }
    // These handlers close or limit the files of their process. The output of `bench` must still be written.
    for handler in ["limit_files", "close_output"] {
        let (document, code, errors) = benched(&lib, handler);
        assert_eq!(
            (&document["exit"]["code"], code),
            (&Value::from(0), Some(0)),
            "{errors}"
        );
        assert_eq!(document["calls"], 3);
    }
}
