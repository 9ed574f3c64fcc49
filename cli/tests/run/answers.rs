//! What `run` and `bench` answer, and how they end, where a handler closes files or spoils the end of its process: document,
//! words and exit status agree.

use crate::*;
use serde_json::Value;
use std::fs::File;

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
