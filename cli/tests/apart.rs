//! Answers for programs are whole whatever the library prints: its lines are on standard error.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::compiler::library_of_text;
use xla_ffi_testing::skip;

/// What both the constructor and the handler print.
const LINE: &str = "hello from the library";

/// A handler that copies `x` to `y`, and prints; so does its library when it is loaded.
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

fn xla_ffi(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_xla-ffi"));
    program.args(arguments).output().unwrap()
}

/// Nothing but one JSON document on standard output, and the library's lines on standard error.
fn is_apart(arguments: &[&str]) {
    let output = xla_ffi(arguments);
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
    let call = ["--arg", "f32[1]=1", "--json"];
    let few = ["--calls", "2", "--warmup", "1"];
    is_apart(&["inspect", lib, "--json"]);
    is_apart(&["doctor", lib, "--json"]);
    is_apart(&["doctor", lib, "--format", "sarif"]);
    is_apart(&["diff", lib, lib, "--json"]);
    is_apart(&["check", lib, "--json"]);
    is_apart(&[&["bench", lib], &call[..], &few].concat());
    is_apart(&[&["bench", lib, "--in-this-process"], &call[..], &few].concat());
}
