//! `xla-ffi run --replay`: recorded calls whose files are written here. (`tests/jax/record.py` has calls that jax made.)

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::compiler::{compiler, library_of_text};

/// Handlers that tell in `s32[1]` what their call has.
const SOURCE: &str = r#"
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <unistd.h>
#include "xla_ffi/handler.h"
static xffi_type type = XFFI_TYPE("replayed.State", free);
/* A result, and in it a number. */
static XLA_FFI_Error* tell(xffi_call* call, int32_t number) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 1);
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error == NULL) ((int32_t*)y.data)[0] = number;
  return error;
}
static int32_t threads(xffi_call* call) {
  int64_t count = -1;
  XLA_FFI_Error* error = xffi_num_threads(call, &count);
  if (error != NULL) { xffi_error_free(call->api, error); return -1; }
  return (int32_t)count;
}
static XLA_FFI_Error* leaves_state_impl(xffi_call* call) {
  XLA_FFI_Error* error = xffi_decoded(call);
  return error != NULL ? error : xffi_set_state(call, &type, calloc(1, 8));
}
static XLA_FFI_Error* with_state_impl(xffi_call* call) {
  void* state = NULL;
  XLA_FFI_Error* error = xffi_get_state(call, &type, XLA_FFI_ExecutionStage_INSTANTIATE, &state);
  return error != NULL ? error : tell(call, threads(call));
}
static XLA_FFI_Error* size_impl(xffi_call* call) { return tell(call, threads(call)); }
static XLA_FFI_Error* up_impl(xffi_call* call) { return tell(call, 1); }
static XLA_FFI_Error* down_impl(xffi_call* call) { return tell(call, WHICH); }
static XLA_FFI_Error* wanders_impl(xffi_call* call) { return tell(call, chdir("/")); }
static XLA_FFI_Error* late_impl(xffi_call* call) { sleep(1); usleep(200000); return tell(call, 0); }
XFFI_HOST_HANDLER_WITH(leaves_state, leaves_state_impl, XLA_FFI_ExecutionStage_INSTANTIATE, XFFI_R1, 0, &type);
XFFI_HOST_HANDLER(with_state, with_state_impl);
XFFI_HOST_HANDLER(size, size_impl);
XFFI_HOST_HANDLER(up, up_impl);
XFFI_HOST_HANDLER(down, down_impl);
XFFI_HOST_HANDLER(wanders, wanders_impl);
XFFI_HOST_HANDLER(late, late_impl);
"#;

/// An empty folder for a test's files.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("replay")
        .join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("calls")).unwrap();
    folder
}

/// The library, in a folder; what `down` tells is one that says which build it is.
fn library(test: &str, folder: &Path, which: i32) -> Option<PathBuf> {
    let program = compiler(false, test)?;
    let which = format!("-DWHICH={which}");
    let flags = ["-w", &which];
    library_of_text(
        folder,
        "replayed",
        program.to_str().unwrap(),
        SOURCE,
        &flags,
    )
}

/// The checksum of a section.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    })
}

/// A recorded call without arguments.
struct Recorded {
    number: u64,
    handler: &'static str,
    stage: &'static str,
    stages: Value,
    threads: Option<i64>,
    revision: u8,
    library: PathBuf,
    /// The call that left its state.
    instance: Option<u64>,
    /// What it told, if it ended.
    told: Option<i32>,
}

impl Recorded {
    /// The execution of a handler that is called like its symbol.
    fn of(number: u64, handler: &'static str, library: &Path, told: i32) -> Self {
        Self {
            number,
            handler,
            stage: "execute",
            stages: json!({ "execute": handler }),
            threads: Some(2),
            revision: 10,
            library: library.to_owned(),
            instance: None,
            told: Some(told),
        }
    }

    fn write(&self, folder: &Path) {
        let rets = json!([{"dtype": 4, "dims": [1], "data": {"kept": 4}}]);
        let is_execute = self.stage == "execute";
        let call = json!({
            "number": self.number, "library": self.library, "handler": self.handler, "stages": self.stages,
            "stage": self.stage, "host": "here", "revision": self.revision, "process": 7,
            "context": {"run_id": 1, "device_ordinal": 0, "threads": self.threads, "custom_options": null},
            "attributes": [], "args": [], "rets": if is_execute { rets } else { json!([]) },
        });
        let mut bytes = b"XLAFFIRC\x01\0\0\0".to_vec();
        let mut section = |kind: &[u8], content: &[u8]| {
            let length = (content.len() as u64).to_le_bytes();
            let whole = [kind, &length, content].concat();
            bytes.extend(&whole);
            bytes.extend(crc32(&whole).to_le_bytes());
        };
        section(b"CALL", call.to_string().as_bytes());
        if let Some(instance) = self.instance {
            let state = json!({ "instance": instance });
            section(b"STAT", state.to_string().as_bytes());
        }
        if let Some(told) = self.told {
            if is_execute {
                section(b"RETS", &[&[0; 8][..], &told.to_le_bytes()[..]].concat());
            }
            section(b"DONE", br#"{"outcome":"done","later":false}"#);
        }
        let name = format!("calls/{:06}-{}.xlacall", self.number, self.handler);
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

/// Replays `calls` in a folder, both named from there.
fn replay(folder: &Path, library: &str, rest: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .args(["run", library, "--replay", "calls"])
        .args(rest)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[track_caller]
fn says(code: i32, done: &Output, wanted: &[&str]) {
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    assert_eq!(done.status.code(), Some(code), "{said}");
    for wanted in wanted {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

#[track_caller]
fn all_equal(done: &Output, count: usize) {
    let all = format!("{count} calls: {count} equal, 0 differ, 0 not compared\n");
    says(0, done, &[&all]);
}

/// An instantiation has no thread pool: the executions that use its state say how large theirs is.
#[test]
fn calls_have_the_threads_of_the_recorded_host() {
    let test = "replay.calls_have_the_threads_of_the_recorded_host";
    let folder = folder("threads");
    let Some(library) = library(test, &folder, 0) else {
        return;
    };
    let stages = json!({"execute": "with_state", "instantiate": "leaves_state"});
    let state = |number, stage, threads: Option<i64>| Recorded {
        stage,
        stages: stages.clone(),
        threads,
        instance: threads.map(|_| 1),
        ..Recorded::of(
            number,
            "with_state",
            &library,
            threads.map_or(0, |threads| threads as i32),
        )
    };
    state(1, "instantiate", None).write(&folder);
    // More than a pool has: a handler that asks is told so all the same.
    for (number, threads) in [(2, 5), (3, 7), (4, 3000)] {
        state(number, "execute", Some(threads)).write(&folder);
    }
    let size = Recorded {
        threads: Some(3),
        ..Recorded::of(5, "size", &library, 3)
    };
    size.write(&folder);
    let file = library.to_str().unwrap();
    all_equal(&replay(&folder, file, &[]), 5);
    says(
        1,
        &replay(&folder, file, &["--threads", "5"]),
        &[
            "call 2, with_state (execute): equal",
            "which is 5 and was 7",
            "which is 5 and was 3",
        ],
    );
}

#[test]
fn a_host_without_a_pool_has_none() {
    let test = "replay.a_host_without_a_pool_has_none";
    let folder = folder("no_pool");
    let Some(library) = library(test, &folder, 0) else {
        return;
    };
    let of = |number, threads, revision| Recorded {
        threads,
        revision,
        ..Recorded::of(number, "size", &library, -1)
    };
    of(1, None, 10).write(&folder);
    // There is no way to ask.
    of(2, None, 2).write(&folder);
    let file = library.to_str().unwrap();
    all_equal(&replay(&folder, file, &[]), 2);
    says(
        1,
        &replay(&folder, file, &["--threads", "4"]),
        &["which is 4 and was -1"],
    );
    of(1, Some(2), 10).write(&folder);
    says(1, &replay(&folder, file, &[]), &["which is 2 and was -1"]);
    all_equal(&replay(&folder, file, &["--threads", "0"]), 2);
}

#[test]
fn handlers_of_one_name_have_their_own_symbols() {
    let test = "replay.handlers_of_one_name_have_their_own_symbols";
    let folder = folder("symbols");
    let Some(library) = library(test, &folder, -1) else {
        return;
    };
    for (number, symbol, told) in [(1, "up", 1), (2, "down", -1), (3, "up", 1)] {
        let recorded = Recorded {
            stages: json!({ "execute": symbol }),
            ..Recorded::of(number, "step", &library, told)
        };
        recorded.write(&folder);
    }
    all_equal(&replay(&folder, library.to_str().unwrap(), &[]), 3);
}

/// Neither the files behind it nor the library, which another revision loads anew, are looked for in the handler's folder.
#[test]
fn a_handler_that_goes_to_another_folder_leaves_the_rest() {
    let test = "replay.a_handler_that_goes_to_another_folder_leaves_the_rest";
    let folder = folder("wanders");
    let Some(library) = library(test, &folder, 0) else {
        return;
    };
    for (number, revision) in [(1, 10), (2, 10), (3, 9)] {
        let recorded = Recorded {
            revision,
            ..Recorded::of(number, "wanders", &library, 0)
        };
        recorded.write(&folder);
    }
    let name = library.file_name().unwrap().to_str().unwrap();
    all_equal(&replay(&folder, &format!("./{name}"), &[]), 3);
    std::fs::write(folder.join("calls/000002-wanders.xlacall"), "damaged").unwrap();
    // Told as it was named.
    let said = ["calls/000002-wanders.xlacall: no recorded call"];
    says(1, &replay(&folder, &format!("./{name}"), &[]), &said);
}

#[test]
fn libraries_of_one_file_name_are_told_apart() {
    let test = "replay.libraries_of_one_file_name_are_told_apart";
    let folder = folder("names");
    let other = folder.join("other");
    let third = folder.join("third");
    for folder in [&other, &third] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let Some(first) = library(test, &folder, 1) else {
        return;
    };
    let second = library(test, &other, 2).unwrap();
    Recorded::of(1, "down", &first, 1).write(&folder);
    Recorded::of(2, "down", &second, 2).write(&folder);
    // By another path of the same file, too.
    for path in ["libreplayed.so", "./other/../libreplayed.so"] {
        all_equal(&replay(&folder, path, &[]), 1);
    }
    all_equal(&replay(&folder, second.to_str().unwrap(), &[]), 1);
    let copy = third.join(first.file_name().unwrap());
    std::fs::copy(&first, &copy).unwrap();
    says(
        1,
        &replay(&folder, copy.to_str().unwrap(), &[]),
        &[
            "calls of 2 libraries that are called libreplayed.so: ",
            first.to_str().unwrap(),
            second.to_str().unwrap(),
        ],
    );
    // One library alone may be replayed as any other build of it.
    Recorded::of(2, "down", &first, 1).write(&folder);
    all_equal(&replay(&folder, copy.to_str().unwrap(), &[]), 2);
}

#[test]
fn a_call_that_never_ended_may_have_found_a_full_disk() {
    let test = "replay.a_call_that_never_ended_may_have_found_a_full_disk";
    let folder = folder("never_ended");
    let Some(library) = library(test, &folder, 0) else {
        return;
    };
    let recorded = Recorded {
        told: None,
        ..Recorded::of(1, "up", &library, 0)
    };
    recorded.write(&folder);
    says(
        1,
        &replay(&folder, library.to_str().unwrap(), &[]),
        &["never ended: ", "or the disk was full"],
    );
}

/// A call that comes back too late is refused, and keeps no other from being replayed.
#[test]
fn the_time_limit_is_of_each_call() {
    let test = "replay.the_time_limit_is_of_each_call";
    let folder = folder("late");
    let Some(library) = library(test, &folder, 0) else {
        return;
    };
    Recorded::of(1, "late", &library, 0).write(&folder);
    Recorded::of(2, "up", &library, 1).write(&folder);
    let file = library.to_str().unwrap();
    all_equal(&replay(&folder, file, &[]), 2);
    says(
        1,
        &replay(&folder, file, &["--time-limit", "1"]),
        &[
            "call 1, late (execute) returned after 1.2 s, and not within 1s",
            "2 calls: 1 equal, 0 differ, 0 not compared, 1 not replayed",
        ],
    );
}
