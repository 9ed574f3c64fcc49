//! Tests the output and exit status of `xla-ffi run` and `xla-ffi inspect`.

mod device;
mod exit_status;
mod files;
mod memory;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use xla_ffi_testing::{rust_examples, skip};

/// A C library that does not use this project's headers. One handler adds 1 to floats, and the other handlers
/// misbehave.
const SOURCE: &str = r#"
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
typedef struct { size_t size; void* ext; uint32_t dtype; void* data; int64_t rank; int64_t* dims; } Buffer;
typedef struct { size_t size; void* ext; int64_t count; uint32_t* types; void** list; } List;
typedef struct { size_t size; void* ext; int64_t count; uint32_t* types; void** names; void** list; } Attrs;
typedef struct Frame { size_t size; uintptr_t* ext; void** api; void* ctx; uint32_t stage; List args, rets; Attrs attrs; void* future; } Frame;
typedef struct { size_t size; void* ext; const char* message; uint32_t code; } Create;
static void* fail(Frame* f, uint32_t code, const char* text) {
  Create c = {28, NULL, text, code};
  return ((void* (*)(Create*))f->api[6])(&c);
}
static int metadata(Frame* f, int minor) {
  if (f->ext == NULL) return 0;
  char* answer = (char*)f->ext[3];
  int version[2] = {0, minor};
  memcpy(answer + 24, version, 8);
  return 1;
}
void* add_one(Frame* f) {
  if (metadata(f, 1)) return NULL;
  if (f->args.count != 1 || f->rets.count != 1) return fail(f, 3, "add_one takes one argument and gives one result");
  Buffer *x = f->args.list[0], *y = f->rets.list[0];
  if (x->dtype != 11 || y->dtype != 11) return fail(f, 3, "argument 'x': expected dtype F32");
  int64_t n = 1;
  for (int64_t i = 0; i < x->rank; ++i) n *= x->dims[i];
  for (int64_t i = 0; i < n; ++i) ((float*)y->data)[i] = ((float*)x->data)[i] + 1;
  return NULL;
}
void* newer(Frame* f) { metadata(f, 9); return NULL; }
void* silent(Frame* f) { (void)f; return NULL; }
void* crash_in_metadata(Frame* f) { return *(void**)(f->size - 160); }
void* hang_in_metadata(Frame* f) { for (;;) sleep(1); return f; }
void* crash(Frame* f) { if (metadata(f, 1)) return NULL; return *(void**)(f->size - 160); }
void* give_up(Frame* f) { if (metadata(f, 1)) return NULL; abort(); }
static int deeper(volatile int* above) { volatile int own[4096]; own[0] = *above + 1; return deeper(own) + own[1]; }
void* fill_stack(Frame* f) { if (metadata(f, 1)) return NULL; volatile int none = 0; deeper(&none); return NULL; }
void* slow(Frame* f) { if (metadata(f, 1)) return NULL; usleep(1200000); return NULL; }
void* nothing(Frame* f) { metadata(f, 1); return NULL; }
void* leave(Frame* f) { if (metadata(f, 1)) return NULL; exit(0); }
void* close_output(Frame* f) { if (metadata(f, 1)) return NULL; close(1); return NULL; }
void* leave_with_2(Frame* f) { if (metadata(f, 1)) return NULL; exit(2); }
void* crash_at_exit(Frame* f) { if (metadata(f, 1)) return NULL; atexit(abort); return NULL; }
void* limit_files(Frame* f) {
  if (metadata(f, 1)) return NULL;
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_FSIZE, &none);
  return NULL;
}
void* hang(Frame* f) { if (metadata(f, 1)) return NULL; for (;;) sleep(1); return f; }
void* half(Frame* f) {
  if (metadata(f, 1)) return NULL;
  Buffer* y = f->rets.list[0];
  for (int64_t i = 0; i < y->dims[0] / 2; ++i) ((float*)y->data)[i] = 1;
  return NULL;
}
void* overrun(Frame* f) {
  if (metadata(f, 1)) return NULL;
  ((char*)((Buffer*)f->rets.list[0])->data)[4] = 1;
  return NULL;
}
"#;

fn tmp() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Builds the library of this test. Without a C compiler, reports a skip and returns `None`.
fn library(test: &str) -> Option<PathBuf> {
    static BUILDING: Mutex<Option<Option<PathBuf>>> = Mutex::new(None);
    let mut built = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let path = built.get_or_insert_with(|| {
        let source = tmp().join("handlers.c");
        std::fs::write(&source, SOURCE).unwrap();
        let out = tmp().join("libhandlers.so");
        let compiler = ["cc", "gcc", "clang"].into_iter().find(|name| {
            Command::new(name)
                .arg("--version")
                .output()
                .is_ok_and(|out| out.status.success())
        })?;
        let done = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O0", "-w"])
            .arg(&source)
            .arg("-o")
            .arg(&out)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        Some(out)
    });
    if path.is_none() {
        skip(test, "no C compiler");
    }
    path.clone()
}

fn xla_ffi(command: &str, lib: &Path, rest: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg(command)
        .arg(lib)
        .args(rest)
        .output()
        .unwrap()
}

/// Runs `xla-ffi run`, which must succeed, and returns its standard output.
fn succeeds(lib: &Path, rest: &[&str]) -> String {
    let out = xla_ffi("run", lib, rest);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{rest:?}: {errors}");
    String::from_utf8(out.stdout).unwrap()
}

/// Runs `xla-ffi run`, which must fail with this exit status, and returns its standard error.
fn fails(code: i32, lib: &Path, rest: &[&str]) -> String {
    let out = xla_ffi("run", lib, rest);
    let errors = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{rest:?}: {errors}");
    assert!(out.stdout.is_empty(), "{rest:?}");
    errors
}

#[test]
fn a_plain_c_handler_runs_on_every_revision() {
    let Some(lib) = library("a_plain_c_handler_runs_on_every_revision") else {
        return;
    };
    for revision in 0..=10 {
        let revision = format!("r{revision}");
        let args = [
            "--handler",
            "add_one",
            "--arg",
            "f32[3]=1,2,-3",
            "--ret",
            "f32[3]",
        ];
        let args = [&args[..], &["--revision", &revision]].concat();
        assert_eq!(
            succeeds(&lib, &args),
            "ret0: f32[3] [2, 3, -2]\n",
            "{revision}"
        );
    }
    let empty = [
        "--handler",
        "add_one",
        "--arg",
        "f32[0,5]=zeros",
        "--ret",
        "f32[0,5]",
    ];
    assert_eq!(succeeds(&lib, &empty), "ret0: f32[0,5] []\n");
}

#[test]
fn what_a_handler_leaves_unwritten_is_told() {
    let Some(lib) = library("what_a_handler_leaves_unwritten_is_told") else {
        return;
    };
    let args = ["--handler", "half", "--ret", "f32[6]"];
    for more in [&[][..], &["--in-this-process"], &["--revision", "r0"]] {
        let said = fails(1, &lib, &[&args[..], more].concat());
        assert!(
            said.contains("hazard unwritten-result: result 0 (f32[6]): the handler never wrote elements 3 to 5"),
            "{said}"
        );
        assert!(said.contains("--allow-unwritten"), "{said}");
    }
    let allowed = [&args[..], &["--allow-unwritten"]].concat();
    assert_eq!(
        succeeds(&lib, &allowed),
        "ret0: f32[6] [1, 1, 1, 0, 0, 0]\n"
    );
    // `bench` accepts results that the handler leaves unwritten, unlike `run`.
    let bench = xla_ffi("bench", &lib, &[&args[..], &["--calls", "3"]].concat());
    assert_eq!(bench.status.code(), Some(0));
}

#[test]
fn inspect_asks_symbols_and_tells_the_first_jaxlib() {
    let Some(lib) = library("inspect_asks_symbols_and_tells_the_first_jaxlib") else {
        return;
    };
    let out = xla_ffi("inspect", &lib, &["--handler", "add_one", "--format=json"]);
    assert_eq!(out.status.code(), Some(0));
    let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let handler = &answer["handlers"][0];
    assert_eq!(handler["answers"], "0.1");
    // Runtimes of r0 make no metadata call, so they accept every handler.
    assert_eq!(handler["first_jaxlib"], "0.4.31");
    assert_eq!(handler["accepted_by"].as_array().unwrap().len(), 11);
    let newer = xla_ffi("inspect", &lib, &["--handler", "newer", "--format=json"]);
    let answer: serde_json::Value = serde_json::from_slice(&newer.stdout).unwrap();
    assert_eq!(
        answer["handlers"][0]["first_jaxlib"],
        serde_json::Value::Null
    );
    assert!(
        answer["handlers"][0]["error"]
            .as_str()
            .unwrap()
            .contains("newer ABI")
    );
    // The exit status and standard error must also report that no jaxlib loads the handler.
    assert_eq!(newer.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&newer.stderr);
    assert!(
        errors.contains("no known jaxlib loads handler 'newer'"),
        "{errors}"
    );
    assert_eq!(xla_ffi("inspect", &lib, &[]).status.code(), Some(1));
}

/// Tests the commands in the README, with the path of an example library.
#[test]
fn the_commands_of_the_readme() {
    let readme = std::fs::read_to_string(xla_ffi_testing::root().join("README.md")).unwrap();
    let library = rust_examples().join("librms_norm.so");
    let text = readme.replace("\\\n", " ").replace(
        "target/release/libmy_calls.so",
        &library.display().to_string(),
    );
    let tool = Path::new(env!("CARGO_BIN_EXE_xla-ffi")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", tool.display());
    let commands = text.lines().filter(|line| line.starts_with("xla-ffi "));
    let commands = commands.filter(|line| !line.starts_with("xla-ffi new"));
    let told: Vec<String> = commands
        .map(|command| {
            let mut shell = Command::new("sh");
            let out = shell.args(["-c", command]).env("PATH", &path).output();
            let out = out.unwrap();
            let errors = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{command}: {errors}");
            String::from_utf8(out.stdout).unwrap()
        })
        .collect();
    let [run, inspect] = &told[..] else {
        panic!("not two commands: {told:?}");
    };
    // For each row, the handler computes x / sqrt(mean(x²) + 1e-6).
    let wanted = "y: f32[2,3] [[0.46291, 0.92582, 1.38873], [0.78954196, 0.98692745, 1.1843129]]\n";
    assert_eq!(run, wanted);
    assert!(inspect.contains("rms_norm"), "{inspect}");
}

/// Tests the inferred sizes of results that depend on an attribute, with the contract `n -> n degree+1`.
#[test]
fn sizes_from_attributes() {
    let lib = rust_examples().join("libattributes.so");
    let call = ["--handler", "powers", "--arg", "f32[2]=2,3"];
    let with = |rest: &[&'static str]| [&call[..], rest].concat();
    assert_eq!(
        succeeds(&lib, &call),
        "y: f32[2,3] [[1, 2, 4], [1, 3, 9]]\n"
    );
    assert_eq!(
        succeeds(&lib, &with(&["--attrs", "{degree = 1 : i64}"])),
        "y: f32[2,2] [[1, 2], [1, 3]]\n"
    );
    let said = fails(1, &lib, &with(&["--attrs", "{degree = -1 : i64}"]));
    let wanted = "attribute `degree`: expected a size, got -1; the contract is `n -> n degree+1`";
    assert!(said.contains(wanted), "{said}");
    // The attribute is invalid, so an error that suggests `--ret` would not help.
    assert!(said.contains("powers (execute): "), "{said}");
    assert!(!said.contains("--ret"), "{said}");
    let said = fails(1, &lib, &["--handler", "powers"]);
    let wanted = "powers (execute): expected 1 argument (x), got 0";
    assert!(said.contains(wanted), "{said}");
    let said = fails(1, &lib, &["--handler", "power"]);
    assert!(said.contains("(the manifest has "), "{said}");
    let told = xla_ffi("inspect", &lib, &["--handler", "power"]);
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("(the manifest has "), "{told}");
    let said = fails(
        1,
        &lib,
        &with(&["--attrs", "{degree = 9223372036854775807 : i64}"]),
    );
    assert!(said.contains("degree+1 is too large"), "{said}");
    // The handler must also refuse a result whose size on the command line is wrong.
    let said = fails(1, &lib, &with(&["--ret", "f32[2,4]"]));
    let wanted = "with n = 2 from argument `x`, degree = 2 from attribute `degree`, degree+1 = 3, got F32[2, 4]";
    assert!(said.contains(wanted), "{said}");
}
