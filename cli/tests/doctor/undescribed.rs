//! Tests handlers that a manifest lists without a description. Properties without a description are unknown, not
//! absent.

use crate::{build, doctor};
use serde_json::Value;
use std::process::Command;
use xla_ffi_testing::skip;

/// A handler that behaves like handlers built with XLA's headers of version 0.1. It always answers 0.1, has state, and
/// is compatible with command buffers.
const OLD: &str = r#"
#include "xla_ffi/handler.h"
static int answer(XLA_FFI_CallFrame* frame) {
  XLA_FFI_InternalExtension* extension = frame->extension_start;
  for (; extension != NULL; extension = extension->next) {
    if (extension->type == XLA_FFI_Extension_Metadata) {
      XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)extension)->metadata;
      metadata->api_version.major_version = 0;
      metadata->api_version.minor_version = 1;
      metadata->traits = 1;
      return 1;
    }
  }
  return 0;
}
struct set_0_1 {
  size_t size;
  void* extension;
  void* ctx;
  void* type_id;
  void* state;
  void (*deleter)(void*);
};
static XLA_FFI_TypeId id = {0};
static int state;
static void deleter(void* object) { (void)object; }
__attribute__((visibility("default"))) XLA_FFI_Error* make(XLA_FFI_CallFrame* frame) {
  struct set_0_1 args = {sizeof args, NULL, (void*)frame->ctx, &id, &state, deleter};
  if (answer(frame)) return NULL;
  return ((XLA_FFI_Error * (*)(struct set_0_1*)) frame->api->XLA_FFI_State_Set)(&args);
}
__attribute__((visibility("default"))) XLA_FFI_Error* h(XLA_FFI_CallFrame* frame) {
  answer(frame);
  return NULL;
}
#ifdef MANIFEST
XFFI_LIBRARY(und, XFFI_DESCRIBE_WITH("h", XFFI_PLATFORMS("cpu"),
                                     XFFI_STAGES(XFFI_STAGE(execute, h), XFFI_STAGE(instantiate, make)),
                                     XFFI_FLOOR(r0), XFFI_UNDESCRIBED));
#endif
"#;

#[test]
fn it_is_judged_as_one_without_manifest() {
    let test = "it_is_judged_as_one_without_manifest";
    let folder = tempfile::tempdir().unwrap();
    let Some(named) = build(folder.path(), "named", "gcc", OLD, &[]) else {
        return skip(test, "gcc is not there");
    };
    let listed = build(folder.path(), "listed", "gcc", OLD, &["-DMANIFEST"]).unwrap();
    let named = doctor(&named, &["--handler", "execute=h,instantiate=make"]);
    let told = doctor(&listed, &[]);
    assert_eq!(told.code, Some(1), "{}", told.stderr);
    for version in ["0.4.31", "0.4.34", "0.8.0", "0.9.1", "0.12.0"] {
        assert_eq!(
            told.loads(version, "h"),
            named.loads(version, "h"),
            "{version}"
        );
        assert_eq!(
            told.risks(version, "h"),
            named.risks(version, "h"),
            "{version}"
        );
    }
    let proved = told.risks("0.12.0", "h");
    assert!(
        proved
            .iter()
            .any(|(level, what)| level == "proved" && what.contains("State_Set")),
        "{proved:?}"
    );
    let inspected = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .arg("inspect")
            .arg(&listed)
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = inspected(&[]);
    assert!(
        text.contains("command_buffer_compatible") && !text.contains("floor"),
        "{text}"
    );
    let value: Value = serde_json::from_str(&inspected(&["--format=json"])).unwrap();
    let traits = &value["handlers"][0]["traits"];
    assert_eq!(*traits, serde_json::json!(["command_buffer_compatible"]));
}
