//! Tests that JSON output conforms to `docs/schema/xla-ffi-1.json`. Every form in the schema must occur in the output
//! of real commands.

use jsonschema::Validator;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::compiler::{library_of_text, works};
use xla_ffi_testing::wheel::Wheel;
use xla_ffi_testing::{root, skip};

fn schema() -> Value {
    let path = root().join("docs/schema/xla-ffi-1.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Runs a command and returns its JSON output. The output must contain the command's exit status.
fn answer(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{arguments:?}: {e}: {stderr}"));
    let code = output.status.code().unwrap();
    assert_eq!(value["exit"]["code"], code, "{arguments:?}: {value:#}");
    assert_eq!(
        value["exit"]["kind"] == "ok",
        code == 0,
        "{arguments:?}: {value:#}"
    );
    value
}

fn assert_fits(validator: &Validator, value: &Value, arguments: &[&str]) {
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{arguments:?}: {errors:#?}");
}

#[test]
fn every_answer_has_its_form() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let text = file("text.so", "no library");
    let one = r#"{"structs":{"XLA_FFI_Error_Details":{"size":1,"fields":{}}}}"#;
    let layouts = [
        file("wrong.json", one),
        file("nothing.json", "{}"),
        file("broken.json", "{"),
    ];
    let wheel = Wheel::named("mine-1.0-py3-none-any")
        .member("mine/text.so", b"no library")
        .pack(folder.path());
    let wheel = wheel.display().to_string();
    let mut runs: Vec<Vec<&str>> = vec![
        vec!["doctor", "--wheel", &wheel, "--format=json"],
        vec!["doctor", "--wheel", "nowhere.whl", "--format=json"],
        vec!["abi", "revisions", "--format=json"],
        vec!["abi", "show", "r9", "--format=json"],
        vec![
            "abi",
            "show",
            "collectives-0.3",
            "Communicator_Get_Args",
            "--format",
            "json",
        ],
        vec!["abi", "show", "r9", "Nothing", "--format=json"],
        vec!["abi", "diff", "r8", "r9", "--format=json"],
        vec![
            "abi",
            "diff",
            "r2",
            "r3-0.4.38",
            "--format=json",
            "--fail-on",
            "breaks",
        ],
        vec!["abi", "diff", "nowhere.json", "r10", "--format=json"],
        vec!["abi", "check", "--snapshots", "--format=json"],
        vec!["abi", "check", "--header", "nowhere.h", "--format=json"],
        vec!["abi", "check", "--layout", &layouts[0], "--format=json"],
        vec!["abi", "check", "--layout", &layouts[1], "--format=json"],
        vec!["abi", "check", "--layout", &layouts[2], "--format=json"],
        vec!["abi", "check", "--dwarf", &text, "--format=json"],
        vec!["doctor", &text, "--format=json"],
        vec!["diff", &text, &text, "--format=json"],
        vec!["inspect", &text, "--format=json"],
        vec!["check", &text, "--format=json"],
        vec!["bench", &text, "--format=json"],
    ];
    let header = std::fs::read_to_string(root().join("include/xla/ffi/api/c_api.h")).unwrap();
    let edited = file(
        "c_api.h",
        &header.replacen("  int64_t rank;", "  int8_t rank;", 1),
    );
    let source = "int one(void* frame) { return 0; }\nint two(void* frame) { return *(int*)0; }";
    let [old, new] = ["old", "new"].map(|name| {
        let path = folder.path().join(format!("{name}.so"));
        path.display().to_string()
    });
    let [norm, legacy] = ["rms_norm", "legacy"].map(|name| {
        let path = folder.path().join(format!("{name}.so"));
        (name, path.display().to_string())
    });
    if works("gcc") {
        for (name, library) in [&norm, &legacy] {
            let source = format!("c_examples/{name}.c");
            let flags = [
                "-shared",
                "-fPIC",
                "-Iinclude",
                &source,
                "-lm",
                "-o",
                library,
            ];
            let mut gcc = Command::new("gcc");
            assert!(
                gcc.args(flags)
                    .current_dir(root())
                    .status()
                    .unwrap()
                    .success()
            );
        }
        runs.extend([
            vec!["inspect", &norm.1, "--format=json"],
            vec!["inspect", &legacy.1, "--format=json"],
            vec!["check", &norm.1, "--handler", "rms_norm", "--format=json"],
            vec![
                "check",
                &norm.1,
                "--handler",
                "rms_norm",
                "--arg",
                "s32[3]=zeros",
                "--format=json",
            ],
            vec![
                "bench",
                &norm.1,
                "--handler",
                "rms_norm",
                "--arg",
                "f32[2,3]=ones",
                "--calls",
                "5",
                "--format=json",
            ],
        ]);
        let source = file("library.c", source);
        for (library, more) in [(&old, "-Done=one"), (&new, "-Done=other")] {
            let flags = ["-shared", "-fPIC", more, &source, "-o", library];
            assert!(Command::new("gcc").args(flags).status().unwrap().success());
        }
        runs.extend([
            vec![
                "abi",
                "check",
                "--header",
                &edited,
                "include/xla/ffi/api/c_api.h",
                "--format=json",
            ],
            vec![
                "abi",
                "check",
                "--header",
                &edited,
                "--variant",
                "a:B=1",
                "--format=json",
            ],
            vec!["inspect", &old, "--handler", "two", "--format=json"],
            vec![
                "doctor",
                &old,
                "--handler",
                "two",
                "--jaxlib",
                "0.9.1..",
                "--format=json",
            ],
            vec!["doctor", &old, "--strict", "--no-run", "--format", "json"],
            vec![
                "diff",
                &old,
                &new,
                "--format=json",
                "--old-version",
                "1.0.0",
                "--handler",
                "two",
            ],
        ]);
    } else {
        skip("every_answer_has_its_form", "gcc is not there");
    }
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut seen = BTreeSet::new();
    for arguments in &runs {
        let value = answer(arguments);
        assert_fits(&validator, &value, arguments);
        seen.insert((
            value["schema"].as_str().unwrap().to_owned(),
            value["error"].is_string(),
        ));
    }
    // All forms of the schema must have occurred. Forms for commands that can fail must have occurred with a failure.
    if works("gcc") {
        let told = schema
            .pointer("/$defs/failed/properties/schema/enum")
            .unwrap();
        let failed: BTreeSet<&str> = told
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let seen_failing = seen
            .iter()
            .filter(|(_, failed)| *failed)
            .map(|(form, _)| form.as_str());
        let mut expected = failed.clone();
        // The output in these two forms reports failures per snapshot or header, not as one error.
        for form in ["xla-ffi-abi-check-1", "xla-ffi-abi-snapshots-1"] {
            expected.remove(form);
        }
        assert_eq!(seen_failing.collect::<BTreeSet<_>>(), expected);
        let well: BTreeSet<&str> = seen
            .iter()
            .filter(|(_, failed)| !failed)
            .map(|(form, _)| form.as_str())
            .collect();
        assert_eq!(well.len(), 11, "{well:?}");
    }
}

/// The line that the test library prints, when it is loaded and in each call.
const LINE: &str = "hello from the library";

/// A C library with a handler that copies `x` to `y`. The library prints a line when it is loaded and in each call.
const SOURCE: &str = r#"
#include "xla_ffi/handler.h"
#include <stdio.h>
#include <string.h>
static void hello(void) { printf("LINE\n"); fflush(stdout); }
__attribute__((constructor)) static void loaded(void) { hello(); }
static XLA_FFI_Error* talk(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  hello();
  memcpy(y.data, x.data, 4 * x.count);
  return NULL;
}
XFFI_HANDLER(talk_symbol, talk);
XFFI_LIBRARY(talks, XFFI_DESCRIBE(talk_symbol,
  XFFI_ARGS(XFFI_OPERAND("x", F32, ANY)), XFFI_RETS(XFFI_OPERAND("y", F32, ANY)), XFFI_ATTRS(),
  XFFI_SHAPE("... -> ...")));
"#;

fn library(folder: &Path, test: &str) -> Option<PathBuf> {
    let source = SOURCE.replace("LINE", LINE);
    let library = library_of_text(folder, "talks", "gcc", &source, &["-pthread"]);
    if library.is_none() {
        skip(test, "gcc is not there");
    }
    library
}

fn run_xla_ffi(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_xla-ffi"));
    program.args(arguments).output().unwrap()
}

/// Asserts that standard output is a single JSON document, and that standard error contains the lines that the library
/// prints.
fn is_one_document(arguments: &[&str]) {
    let output = run_xla_ffi(arguments);
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let whole = serde_json::from_str::<Value>(&told);
    assert!(whole.is_ok(), "{arguments:?}: {told}{errors}");
    assert!(!told.contains(LINE), "{arguments:?}: {told}");
    assert!(errors.contains(LINE), "{arguments:?}: {errors}");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
}

#[test]
fn answers_for_programs_hold_nothing_that_the_library_prints() {
    let folder = tempfile::tempdir().unwrap();
    let test = "answers_for_programs_hold_nothing_that_the_library_prints";
    let Some(library) = library(folder.path(), test) else {
        return;
    };
    let lib = library.to_str().unwrap();
    let call = ["--arg", "f32[1]=1", "--format=json"];
    let few = ["--calls", "2", "--warmup", "1"];
    is_one_document(&["inspect", lib, "--format=json"]);
    is_one_document(&["doctor", lib, "--format=json"]);
    is_one_document(&["doctor", lib, "--format", "sarif"]);
    is_one_document(&["diff", lib, lib, "--format=json"]);
    is_one_document(&["check", lib, "--format=json"]);
    is_one_document(&[&["bench", lib], &call[..], &few].concat());
    is_one_document(&[&["bench", lib, "--in-this-process"], &call[..], &few].concat());
}
