//! `check` and `run` where a handler goes to another folder, has results that no machine has room for or that are named as
//! places in a file system, and where there is no memory for threads.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::compiler::library_of_text;
use xla_ffi_testing::skip;

const SOURCE: &str = r#"
#include "xla_ffi/handler.h"
#include <string.h>
#include <unistd.h>
static XLA_FFI_Error* go(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "RESULT", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  if (chdir("/") != 0) return NULL;
  memcpy(y.data, x.data, 4 * x.count);
  return NULL;
}
XFFI_HOST_HANDLER(go_symbol, go);
XFFI_LIBRARY(goes, XFFI_DESCRIBE(go_symbol,
  XFFI_ARGS(XFFI_OPERAND("x", F32, ANY)), XFFI_RETS(XFFI_OPERAND("RESULT", F32, ANY)), XFFI_ATTRS(),
  XFFI_SHAPE("CONTRACT"), XFFI_TRAITS("host_only")));
"#;

fn library(folder: &Path, test: &str, result: &str, contract: &str) -> Option<PathBuf> {
    let source = SOURCE.replace("RESULT", result);
    let source = source.replace("CONTRACT", contract);
    let library = library_of_text(folder, "goes", "gcc", &source, &["-pthread"]);
    if library.is_none() {
        skip(test, "gcc is not there");
    }
    library
}

/// A command in the library's folder, which names it as it lies there.
fn in_folder(folder: &Path, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_xla-ffi"));
    program
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(all).unwrap()
}

#[test]
fn a_handler_may_go_to_another_folder() {
    let folder = tempfile::tempdir().unwrap();
    let test = "a_handler_may_go_to_another_folder";
    let Some(_lib) = library(folder.path(), test, "y", "... -> ...") else {
        return;
    };
    let out = in_folder(folder.path(), &["check", "libgoes.so"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out));
    // Results are written where the command was given.
    let run = ["run", "libgoes.so", "--arg", "f32[2]=1,2", "--out", "y.npz"];
    let out = in_folder(folder.path(), &run);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out));
    assert!(folder.path().join("y.npz").exists());
    let out = in_folder(folder.path(), &["doctor", "gone.so"]);
    let told = text(&out);
    assert_eq!(told.matches("os error 2").count(), 1, "{told}");
}

#[test]
fn results_without_room_are_not_checked() {
    let folder = tempfile::tempdir().unwrap();
    let test = "results_without_room_are_not_checked";
    let Some(_lib) = library(folder.path(), test, "y", "n -> 4000000000 1000000 n") else {
        return;
    };
    let out = in_folder(folder.path(), &["check", "libgoes.so"]);
    let told = text(&out);
    assert!(
        told.contains("skipped") && told.contains("too large"),
        "{told}"
    );
    assert!(!told.contains("FAIL"), "{told}");
    assert!(told.contains("no handler could be checked"), "{told}");
}
