//! Writes recorded calls as files, and builds the library whose handlers are called.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use xla_ffi_testing::compiler::{compiler, library_of_text};

/// A C library of handlers. Each handler returns one property of its call as `s32[1]`.
const SOURCE: &str = r#"
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <unistd.h>
#include "xla_ffi/handler.h"
static xffi_type type = XFFI_TYPE("replayed.State", free);
/* Writes `number` to the call's result. */
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
static XLA_FFI_Error* late_impl(xffi_call* call) { sleep(2); return tell(call, 0); }
static XLA_FFI_Error* counts_impl(xffi_call* call) {
  void* state = NULL;
  XLA_FFI_Error* error = NULL;
  error = xffi_get_state(call, &type, XLA_FFI_ExecutionStage_INSTANTIATE, &state);
  return error != NULL ? error : tell(call, (*(int32_t*)state)++);
}
static XLA_FFI_Error* fails_impl(xffi_call* call) {
  return xffi_error(call, XLA_FFI_Error_Code_INVALID_ARGUMENT, "INVALID_ARGUMENT: so it says");
}
static XLA_FFI_Error* for_devices_impl(xffi_call* call) {
  return xffi_error(call, XLA_FFI_Error_Code_FAILED_PRECONDITION, "there is no device");
}
static XLA_FFI_Error* large_impl(xffi_call* call) {
  (void)xffi_ret(call, "y", XLA_FFI_DataType_S32, 1);
  return xffi_decoded(call);
}
XFFI_HOST_HANDLER_WITH(for_devices, for_devices_impl, XLA_FFI_ExecutionStage_PREPARE, XFFI_R1, 0, NULL);
XFFI_HOST_HANDLER(counts, counts_impl);
XFFI_HOST_HANDLER(fails, fails_impl);
XFFI_HOST_HANDLER(large, large_impl);
XFFI_HOST_HANDLER_WITH(leaves_state, leaves_state_impl, XLA_FFI_ExecutionStage_INSTANTIATE, XFFI_R1, 0, &type);
XFFI_HOST_HANDLER(with_state, with_state_impl);
XFFI_HOST_HANDLER(size, size_impl);
XFFI_HOST_HANDLER(up, up_impl);
XFFI_HOST_HANDLER(down, down_impl);
XFFI_HOST_HANDLER(wanders, wanders_impl);
XFFI_HOST_HANDLER(late, late_impl);
"#;

/// Builds the library in a folder. The handler `down` returns `which`, which distinguishes builds of the library.
pub(crate) fn library(test: &str, folder: &Path, which: i32) -> Option<PathBuf> {
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

/// Returns the CRC-32 checksum of a section in a recording.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    })
}

/// A recorded call, which the method `write` writes as a file.
pub(crate) struct Recorded {
    pub(crate) number: u64,
    pub(crate) handler: &'static str,
    pub(crate) stage: &'static str,
    pub(crate) stages: Value,
    pub(crate) threads: Option<i64>,
    pub(crate) revision: u8,
    pub(crate) library: PathBuf,
    /// The number of the instantiate call that created the call's state.
    pub(crate) instance: Option<u64>,
    /// The value that the handler returned; `None` if the call did not complete.
    pub(crate) told: Option<i32>,
    /// The text of the call's error. The code is `None` if the host does not report codes, which hosts do from r9 on.
    pub(crate) error: Option<(Option<u32>, &'static str)>,
    /// Whether the recording lacks an argument because of the size limit.
    pub(crate) left_out: bool,
    /// The number of elements of the result. If the number is not 1, the recording omits the result.
    pub(crate) ret: i64,
}

impl Recorded {
    /// Returns a recorded execution of a handler that returned `told`. `handler` is the handler's name and symbol.
    pub(crate) fn of(number: u64, handler: &'static str, library: &Path, told: i32) -> Self {
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
            error: None,
            left_out: false,
            ret: 1,
        }
    }

    pub(crate) fn write(&self, folder: &Path) {
        let kept = if self.ret == 1 {
            json!({"kept": 4})
        } else {
            json!("limit")
        };
        let rets = json!([{"dtype": 4, "dims": [self.ret], "data": kept}]);
        let left_out = json!({"dtype": 4, "dims": [1], "data": "limit"});
        let args = if self.left_out {
            vec![left_out]
        } else {
            vec![]
        };
        let is_execute = self.stage == "execute";
        let call = json!({
            "number": self.number, "library": self.library, "handler": self.handler, "stages": self.stages,
            "stage": self.stage, "host": "here", "revision": self.revision, "process": 7,
            "context": {"run_id": 1, "device_ordinal": 0, "threads": self.threads, "custom_options": null},
            "attributes": [], "args": args, "rets": if is_execute { rets } else { json!([]) },
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
        if let Some((code, message)) = self.error {
            let outcome =
                json!({"outcome": {"error": {"code": code, "message": message}}, "later": false});
            section(b"DONE", outcome.to_string().as_bytes());
        } else if let Some(told) = self.told {
            if is_execute && self.ret == 1 {
                section(b"RETS", &[&[0; 8][..], &told.to_le_bytes()[..]].concat());
            }
            section(b"DONE", br#"{"outcome":"done","later":false}"#);
        }
        let name = format!("calls/{:06}-{}.xlacall", self.number, self.handler);
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}
