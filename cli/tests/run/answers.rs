//! What `run` and `bench` answer, and how they end, where a handler closes files, spoils the end of its process, or leaves
//! processes behind: document, words and exit status agree, and the right one is blamed.

use crate::*;
use serde_json::Value;
use std::fs::File;
use std::process::Stdio;
use xla_ffi_testing::compiler::library_of_text;

/// How `bench --json` of a handler ends: its document, its exit status, its words.
fn benched(lib: &Path, handler: &str) -> (Value, Option<i32>, String) {
    let out = tmp().join(format!("bench-{handler}.json"));
    let done = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg("bench")
        .arg(lib)
        .args(["--handler", handler, "--json", "--calls", "3"])
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
    let pipe = "closed the pipe through which its process says how it ended";
    for (handler, words) in [
        ("crash_at_exit", ending),
        ("close_the_rest", pipe),
        ("give_up", "signal 6"),
    ] {
        let (document, code, errors) = benched(&lib, handler);
        assert_eq!(code, Some(1), "{handler}: {errors}");
        assert_eq!(document["exit"]["code"], 1, "{handler}: {document}");
        let error = document["error"].as_str().unwrap();
        assert!(
            error.contains(words) && errors.contains(words),
            "{handler}: {error} {errors}"
        );
    }
    // What a handler does to its own process keeps no answer from being written.
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

#[test]
fn the_right_one_is_blamed() {
    let Some(lib) = library("the_right_one_is_blamed") else {
        return;
    };
    let run = |handler: &str| {
        let done = xla_ffi("run", &lib, &["--handler", handler]);
        assert_eq!(done.status.code(), Some(1), "{handler}");
        String::from_utf8(done.stderr).unwrap()
    };
    let said = run("crash_at_exit");
    assert!(
        said.contains("the library, as its process ends, crashed"),
        "{said}"
    );
    let said = run("close_output");
    assert!(
        said.contains("error: the handler closed its process's standard output"),
        "{said}"
    );
    let said = run("close_the_rest");
    assert!(
        said.contains("error: the handler closed the pipe"),
        "{said}"
    );
    let text =
        "#include <unistd.h>\n__attribute__((constructor)) static void gone(void) { close(1); }\n";
    let source = format!("{text}{SOURCE}");
    let closes = library_of_text(&tmp(), "closes", "gcc", &source, &["-w"]);
    let Some(closes) = closes else {
        return skip("the_right_one_is_blamed", "gcc is not there");
    };
    let said = fails(1, &closes, &["--handler", "limit_files"]);
    assert!(
        said.contains(
            "error: the library, while it was loaded, closed its process's standard output"
        ),
        "{said}"
    );
}

/// What cannot be written is an error, whoever writes it and however it was opened.
#[test]
fn an_output_that_is_not_for_writing_is_an_error() {
    let Some(lib) = library("an_output_that_is_not_for_writing_is_an_error") else {
        return;
    };
    let lib = lib.to_str().unwrap();
    let add = [
        "--handler",
        "add_one",
        "--arg",
        "f32[1]=1",
        "--ret",
        "f32[1]",
    ];
    for command in [
        &["--help"][..],
        &["--version"],
        &["inspect", lib, "--handler", "add_one"],
        &["inspect", lib, "--json", "--handler", "add_one"],
        &["doctor", lib, "--handler", "add_one"],
        &["abi", "revisions"],
        &["completions", "bash"],
        &[&["run", lib], &add[..]].concat(),
        &[&["bench", lib], &add[..]].concat(),
        &[&["bench", lib, "--json"], &add[..]].concat(),
    ] {
        let done = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .args(command)
            .stdout(File::open("/dev/null").unwrap())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{command:?}: {errors}");
        assert!(
            errors.contains("standard output: "),
            "{command:?}: {errors}"
        );
    }
}

/// A handler's own processes end with it where it is stopped or crashes.
#[test]
#[cfg(target_os = "linux")]
fn no_process_of_a_handler_outlives_it() {
    let Some(lib) = library("no_process_of_a_handler_outlives_it") else {
        return;
    };
    for (handler, number) in [("sleep_in_shell", 1), ("crash_with_child", 2)] {
        // Nobody else sleeps as long.
        let sleep = (10 * std::process::id() + 100_000 + number).to_string();
        let done = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .arg("run")
            .arg(&lib)
            .args(["--handler", handler, "--time-limit", "2"])
            .env("SLEEP", &sleep)
            // One that is left holds no pipe that is waited for.
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(done.code(), Some(1));
        let wanted = format!("sleep\0{sleep}\0");
        let is_left = |entry: std::io::Result<std::fs::DirEntry>| {
            let line = entry.and_then(|entry| std::fs::read(entry.path().join("cmdline")));
            line.is_ok_and(|line| line == wanted.as_bytes())
        };
        let left = std::fs::read_dir("/proc").unwrap().map(is_left);
        assert_eq!(left.filter(|left| *left).count(), 0, "{handler}");
    }
}
