//! `xla-ffi inspect`: targets of the original custom calls. (`run.rs` asks about handlers without a manifest.)

use serde_json::Value;
use std::process::{Command, Stdio};
use xla_ffi_testing::compiler::library_of_text;
use xla_ffi_testing::examples::rust_examples;
use xla_ffi_testing::{root, skip};

fn inspect(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg("inspect")
        .arg(rust_examples().join("liblegacy.so"))
        .args(arguments)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn targets_of_the_original_custom_calls_are_told() {
    let text = inspect(&[]);
    let target = "legacy target tiled_add_status (Host)\n  signature cpu_status (API version 2), by \
        legacy__tiled_add_status\n  args      f32[128], f32[2048]\n  rets      f32[2048]\n";
    assert!(text.contains(target), "{text}");
    let tuples = "  tuples    (_, _) -> (_, (_)), by roots\n";
    assert!(text.contains(tuples), "{text}");
    let told: Value = serde_json::from_str(&inspect(&["--json"])).expect("JSON");
    let targets = told["legacy"].as_array().expect("a list");
    assert_eq!(targets.len(), 7, "{told}");
    let nested = targets
        .iter()
        .find(|target| target["name"] == "tiled_add_nested");
    assert_eq!(nested.expect("a target")["tuples"], "leaves");
    let handler = "tiled_add_cpu_ffi";
    let one: Value =
        serde_json::from_str(&inspect(&["--json", "--handler", handler])).expect("JSON");
    assert_eq!(one["legacy"], serde_json::json!([]));
}

#[test]
fn a_forgotten_list_of_handlers_is_named() {
    let test = "a_forgotten_list_of_handlers_is_named";
    let source = root().join("cli/templates/c/source.c");
    let source = std::fs::read_to_string(source).unwrap();
    let (forgotten, _) = source.split_once("/* What tools").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-fvisibility=hidden"];
    let Some(library) = library_of_text(folder.path(), "forgot", "gcc", forgotten, &flags) else {
        return skip(test, "gcc is not there");
    };
    for command in ["inspect", "run"] {
        let output = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .arg(command)
            .arg(&library)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let told = String::from_utf8_lossy(&output.stderr);
        for word in ["library!", "XFFI_LIBRARY", "XLA_FFI_LIBRARY", "--handler"] {
            assert!(told.contains(word), "{command}: {told}");
        }
    }
}

/// A library of one handler without operands, whose constructor does BODY.
const CONSTRUCTED: &str = r#"
#include "xla_ffi/handler.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) { BODY }
static XLA_FFI_Error* idle(xffi_call* call) { return xffi_decoded(call); }
XFFI_HANDLER(idle_symbol, idle);
XFFI_LIBRARY(constructed, XFFI_DESCRIBE(idle_symbol, XFFI_ARGS(), XFFI_RETS(), XFFI_ATTRS(), XFFI_SHAPE("->")));
"#;

/// r0 asks a handler nothing, but it loads the library as the others do.
#[test]
fn no_jaxlib_loads_a_library_that_does_not_load() {
    let folder = tempfile::tempdir().unwrap();
    let mut begun = vec![];
    // Two are waited for: all of them at once.
    for (name, body, why) in [
        ("aborts", "abort();", "SIGABRT"),
        ("leaves", "_exit(3);", "status 3"),
        ("hangs", "for (;;) pause();", "did not answer"),
        ("stops", "raise(SIGSTOP);", "did not answer"),
    ] {
        let source = CONSTRUCTED.replace("BODY", body);
        let library = library_of_text(folder.path(), name, "gcc", &source, &["-pthread"]);
        let Some(library) = library else {
            let test = "no_jaxlib_loads_a_library_that_does_not_load";
            return skip(test, "gcc is not there");
        };
        let mut program = Command::new(env!("CARGO_BIN_EXE_xla-ffi"));
        program.arg("inspect").arg(&library).arg("--json");
        program.stdout(Stdio::piped()).stderr(Stdio::null());
        begun.push((name, why, program.spawn().unwrap()));
    }
    for (name, why, program) in begun {
        let output = program.wait_with_output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(output.status.code(), Some(1), "{name}: {told}");
        assert_eq!(told["exit"]["kind"], "findings", "{name}: {told}");
        let handler = &told["handlers"][0];
        assert_eq!(
            handler["accepted_by"],
            serde_json::json!([]),
            "{name}: {told}"
        );
        assert_eq!(handler["first_jaxlib"], Value::Null, "{name}: {told}");
        let error = handler["error"].as_str().unwrap_or_default();
        assert!(error.contains(why), "{name}: {told}");
    }
}
