//! Tests `xla-ffi inspect` with targets of the original custom calls. The tests of `run` cover handlers without a
//! manifest.

use serde_json::Value;
use std::process::Command;
use xla_ffi_testing::compiler::library_of_text;
use xla_ffi_testing::{root, rust_examples, skip};

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
    let told: Value = serde_json::from_str(&inspect(&["--format=json"])).expect("JSON");
    let targets = told["legacy"].as_array().expect("a list");
    assert_eq!(targets.len(), 7, "{told}");
    let nested = targets
        .iter()
        .find(|target| target["name"] == "tiled_add_nested");
    assert_eq!(nested.expect("a target")["tuples"], "leaves");
    let handler = "tiled_add_cpu_ffi";
    let one: Value =
        serde_json::from_str(&inspect(&["--format=json", "--handler", handler])).expect("JSON");
    assert_eq!(one["legacy"], serde_json::json!([]));
}

#[test]
fn a_forgotten_list_of_handlers_is_named() {
    let test = "a_forgotten_list_of_handlers_is_named";
    let source = root().join("cli/templates/c/source.c");
    let source = std::fs::read_to_string(source).unwrap();
    let (forgotten, _) = source.split_once("/* Tools and").unwrap();
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

/// Tests that it is unknown whether jaxlibs accept a handler that requires a registered type for its state. With
/// `--type`, this must be known.
#[test]
fn a_type_that_is_not_registered_is_no_refusal() {
    let test = "a_type_that_is_not_registered_is_no_refusal";
    let source = r#"
#include "xla/ffi/api/c_api.h"
XLA_FFI_TypeId own = {0};
XLA_FFI_TypeId other = {0};
static XLA_FFI_Error* answer(XLA_FFI_CallFrame* frame, int wants) {
  XLA_FFI_Metadata_Extension* extension = (XLA_FFI_Metadata_Extension*)frame->extension_start;
  if (extension && extension->extension_base.type == XLA_FFI_Extension_Metadata) {
    if (wants && own.type_id == 0) {
      XLA_FFI_Error_Create_Args args = {sizeof args, 0,
          "Types used by FFI handlers must be registered before the handler registration",
          XLA_FFI_Error_Code_FAILED_PRECONDITION};
      return frame->api->XLA_FFI_Error_Create(&args);
    }
    extension->metadata->api_version.major_version = 0;
    extension->metadata->api_version.minor_version = 3;
    extension->metadata->traits = 0;
  }
  return 0;
}
XLA_FFI_Error* make(XLA_FFI_CallFrame* frame) { return answer(frame, 1); }
XLA_FFI_Error* h(XLA_FFI_CallFrame* frame) { return answer(frame, 0); }
"#;
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library_of_text(folder.path(), "typed", "gcc", source, &[]) else {
        return skip(test, "gcc is not there");
    };
    let told = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .arg("inspect")
            .arg(&library)
            .args(["--handler", "execute=h,instantiate=make"])
            .args(more)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text)
    };
    for unregistered in [&[][..], &["--type", "Other=other"]] {
        let (code, text) = told(unregistered);
        assert!(
            code == Some(0) && text.contains("unknown: the type of its state"),
            "{code:?} {text}"
        );
        let (code, text) = told(&[unregistered, &["--format=json"]].concat());
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &value["exit"]["kind"]), (Some(0), &"ok".into()));
        assert_eq!(value["handlers"][0]["accepted_by"], Value::Null);
    }
    let (code, text) = told(&["--type", "Own=own"]);
    assert!(
        code == Some(0) && text.contains("or later"),
        "{code:?} {text}"
    );
}
