//! Tests the output and exit status of `xla-ffi check` and `run --replay`. `tests/jax/check.py` tests faulty handlers
//! with a manifest, and `tests/jax/record.py` tests recordings.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::compiler::{library_of_text, shared_library};
use xla_ffi_testing::{rust_examples, skip};

/// A C library whose handlers compute y = x + 1 for floats without a manifest. Each handler has a different mistake.
const SOURCE: &str = r#"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef struct { size_t size; void* ext; uint32_t dtype; void* data; int64_t rank; int64_t* dims; } Buffer;
typedef struct { size_t size; void* ext; int64_t count; uint32_t* types; void** list; } List;
typedef struct { size_t size; uintptr_t* ext; void** api; void* ctx; uint32_t stage; List args, rets; } Frame;
static int metadata(Frame* f) {
  if (f->ext == NULL) return 0;
  int version[2] = {0, 1};
  memcpy((char*)f->ext[3] + 24, version, 8);
  return 1;
}
#define HANDLER(NAME, BODY) void* NAME(Frame* f) { \
  if (metadata(f)) return NULL; \
  Buffer *in = f->args.list[0], *out = f->rets.list[0]; \
  float *x = in->data, *y = out->data; int64_t n = in->rank ? in->dims[0] : 1; \
  BODY return NULL; }
#define ALL for (int64_t i = 0; i < n; ++i) y[i] = x[i] + 1;
HANDLER(good, ALL)
HANDLER(tail, for (int64_t i = 0; i < n - 1; ++i) y[i] = x[i] + 1;)
HANDLER(operand, ALL x[0] = 7;)
static int calls;
HANDLER(global, ALL y[0] += ++calls;)
HANDLER(ends, if (calls++ == 0) { ALL } else abort();)
"#;

fn library(test: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("wrong.c");
    if std::fs::read_to_string(&source).ok().as_deref() != Some(SOURCE) {
        std::fs::write(&source, SOURCE).unwrap();
    }
    shared_library(&folder, test, &source, "wrong", &["-w".to_owned()])
}

fn xla_ffi(command: &str, lib: &Path, rest: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_xla-ffi"));
    program.arg(command).arg(lib).args(rest).output().unwrap()
}

/// Runs the checks of the handlers in a library; the command must exit with `code`. Returns the name, status and text
/// of each check.
fn check(code: i32, lib: &Path, rest: &[&str]) -> Vec<(String, String, String)> {
    let out = xla_ffi("check", lib, &[rest, &["--format=json"]].concat());
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(
        out.status.code(),
        Some(code),
        "{rest:?}: {errors}{}",
        String::from_utf8_lossy(&out.stdout)
    );
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["passed"], code == 0);
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    let lines = report["handlers"][0]["checks"].as_array().unwrap().iter();
    lines
        .map(|line| (text(line, "name"), text(line, "status"), text(line, "text")))
        .collect()
}

#[test]
fn libraries_of_the_sdk_pass() {
    for (library, handler) in [
        ("rms_norm", "rms_norm_backward"),
        ("operands", "matmul"),
        ("execution", "softmax"),
    ] {
        let path = rust_examples().join(format!("lib{library}.so"));
        let lines = check(0, &path, &["--handler", handler]);
        for name in [
            "written",
            "misaligned",
            "zero-sizes",
            "odd-sizes",
            "wrong-types",
        ] {
            let line = lines.iter().find(|line| line.0 == name).unwrap();
            assert_eq!(line.1, "passed", "{library}: {line:?}");
        }
    }
    let axpy = rust_examples().join("liboperands.so");
    let skip = ["--handler", "matmul", "--skip", "revisions", "--keep", "y"];
    for (name, status, _) in check(0, &axpy, &skip) {
        assert!(name != "revisions" || status == "skipped", "{status}");
    }
    let unknown = xla_ffi("check", &axpy, &["--handler", "matmul", "--keep", "none"]);
    assert_eq!(unknown.status.code(), Some(1));
    // Operands on the command line apply to one handler, but this library has two handlers, so the command is refused.
    let norm = rust_examples().join("librms_norm.so");
    for operand in [["--arg", "f32[3]=ones"], ["--ret", "f32[3]"]] {
        let out = xla_ffi("check", &norm, &operand);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1));
        assert!(said.contains("choose the handler with --handler"), "{said}");
    }
    // The handler in this library has state, an attribute without a default, and an operand that it changes in place.
    let execution = rust_examples().join("libexecution.so");
    let counter = ["--handler", "counter"];
    let with = |rest: &[&'static str]| check(0, &execution, &[&counter, rest].concat());
    let lines = with(&["--attrs", "start = 3 : i32", "--ret", "s32"]);
    assert!(
        lines
            .iter()
            .any(|line| line.0 == "repeats" && line.1 == "passed"),
        "{lines:?}"
    );
    let out = xla_ffi("check", &execution, &counter);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1));
    assert!(said.contains("no handler could be checked"), "{said}");
    let lines = check(1, &execution, &counter);
    assert_eq!(
        (lines.len(), lines[0].1 == "passed"),
        (1, false),
        "{lines:?}"
    );
    let operands = rust_examples().join("liboperands.so");
    let axpy = ["--handler", "axpy", "--attrs", "a = 2.0 : f32"];
    let lines = check(0, &operands, &axpy);
    assert!(
        lines
            .iter()
            .any(|line| line.0 == "operands" && line.1 == "passed"),
        "{lines:?}"
    );
}

#[test]
fn each_mistake_is_caught_by_its_line() {
    let Some(lib) = library("each_mistake_is_caught_by_its_line") else {
        return;
    };
    let call = ["--arg", "f32[33]=iota", "--ret", "f32[33]"];
    let of = |code: i32, name: &str| check(code, &lib, &[&["--handler", name], &call[..]].concat());
    let find = |lines: &[(String, String, String)], name: &str| {
        lines.iter().find(|line| line.0 == name).cloned().unwrap()
    };
    let good = of(0, "good");
    assert!(good.iter().all(|line| line.1 != "failed"), "{good:?}");
    let told = find(&good, "misaligned");
    assert!(
        told.1 == "note" && told.2.contains("`argument 0` one byte past"),
        "{told:?}"
    );
    for (handler, name, text) in [
        ("tail", "written", "element 32"),
        ("operand", "operands", "changes its operand `argument 0`"),
        ("global", "repeats", "call 2 with the same"),
        ("ends", "written", "SIGABRT"),
    ] {
        let line = find(&of(1, handler), name);
        assert!(
            line.1 == "failed" && line.2.contains(text),
            "{handler}: {line:?}"
        );
    }
}

/// Tests that `check` finds handlers which wrongly subtract the mean of all rows instead of the mean of each row.
#[test]
fn rows_that_depend_on_one_another_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let source = |name: &str, over: &str| {
        format!(
            r#"#include "xla_ffi/handler.h"
static XLA_FFI_Error* mean_impl(xffi_call* call) {{
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, -1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, -1);
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  int64_t n = {over};
  for (int64_t i = 0; i < x.count; i += n) {{
    float sum = 0;
    for (int64_t j = i; j < i + n; ++j) sum += ((float*)x.data)[j];
    for (int64_t j = i; j < i + n; ++j) ((float*)y.data)[j] = ((float*)x.data)[j] - sum / (float)n;
  }}
  return NULL;
}}
XFFI_HOST_HANDLER(mean, mean_impl);
XFFI_LIBRARY({name}, XFFI_DESCRIBE(mean,
  XFFI_ARGS(XFFI_OPERAND_WITH("x", XFFI_DTYPE(F32))),
  XFFI_RETS(XFFI_OPERAND_WITH("y", XFFI_DTYPE(F32))), XFFI_ATTRS(), XFFI_SHAPE("... n -> ... n")));
"#
        )
    };
    for (name, over, status) in [
        ("row", "x.dims[x.rank - 1]", "passed"),
        ("all", "x.count", "failed"),
    ] {
        let source = source(name, over);
        let Some(library) = library_of_text(folder.path(), name, "gcc", &source, &[]) else {
            return skip(
                "rows_that_depend_on_one_another_are_found",
                "gcc is not there",
            );
        };
        let lines = check((status != "passed").into(), &library, &[]);
        let line = lines.iter().find(|line| line.0 == "vmap").unwrap();
        assert_eq!(line.1, status, "{line:?}");
        // All values of the operand are equal, so only the different scales of the rows reveal the mistake.
        let lines = check(
            (status != "passed").into(),
            &library,
            &["--arg", "f32[3,4]=ones"],
        );
        let line = lines.iter().find(|line| line.0 == "vmap").unwrap();
        assert_eq!(line.1, status, "{line:?}");
    }
}

#[test]
fn what_is_no_recording_is_told() {
    let lib = rust_examples().join("librms_norm.so");
    let said = |code: i32, rest: &[&str]| {
        let out = xla_ffi("run", &lib, rest);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{said}");
        said
    };
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().to_str().unwrap();
    assert!(said(1, &["--replay", empty]).contains("holds no recorded call"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/check.rs");
    assert!(
        said(1, &["--replay", source])
            .contains("no recorded call: it does not begin with XLAFFIRC")
    );
    assert!(said(1, &["--replay", "/nowhere/at all"]).contains("No such file"));
    assert!(said(1, &["--replay", "/dev/zero"]).contains("not a regular file"));
    assert!(said(2, &["--replay", empty, "--arg", "f32=1"]).contains("cannot be used with"));
}

/// Tests that platforms are compared without case, and that `Host` is a name of the CPU.
#[test]
fn the_cpu_has_several_names() {
    let folder = tempfile::tempdir().unwrap();
    let source = |platforms: &str| {
        format!(
            r#"#include "xla_ffi/handler.h"
static XLA_FFI_Error* bad_impl(xffi_call* call) {{
  xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  return xffi_decoded(call);
}}
XFFI_HOST_HANDLER(bad, bad_impl);
XFFI_LIBRARY(names, XFFI_DESCRIBE_WITH("bad", {platforms}, XFFI_STAGES(XFFI_STAGE(execute, bad)), XFFI_FLOOR(r0),
  XFFI_ARGS(), XFFI_RETS(XFFI_OPERAND("y", F32, 1)), XFFI_ATTRS(), XFFI_SHAPE("-> 3"), XFFI_TRAITS("host_only")));
"#
        )
    };
    for (name, platforms, is_cpu) in [
        ("host", "XFFI_PLATFORMS(\"Host\")", true),
        ("cpu", "XFFI_PLATFORMS(\"CPU\", \"cuda\")", true),
        ("cuda", "XFFI_PLATFORMS(\"CUDA\")", false),
    ] {
        let Some(library) = library_of_text(folder.path(), name, "gcc", &source(platforms), &[])
        else {
            return skip("the_cpu_has_several_names", "gcc is not there");
        };
        let out = xla_ffi("check", &library, &[]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1));
        assert_ne!(
            said.contains("no manifest with a handler"),
            is_cpu,
            "{platforms}: {said}"
        );
    }
}
