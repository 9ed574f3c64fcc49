//! Runs `xla-ffi run` with failing allocations. A run must print the right result, or end with an error or with the abort
//! of Rust's allocator. `XLA_FFI_CASES` sets the number of runs.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use crate::*;
use std::os::unix::process::ExitStatusExt;
use xla_ffi_testing::compiler::library_of_text;
use xla_ffi_testing::damage::cases;
use xla_ffi_testing::root;

/// The allocation with the number `FAILING` fails in each process, and each process prints its number of allocations.
const ALLOCATOR: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include "allocator.h"
// Rust calls this function of glibc before main. It crashes if its allocation fails.
int pthread_getattr_np(pthread_t thread, pthread_attr_t* out) {
  int (*real)(pthread_t, pthread_attr_t*) = dlsym(RTLD_NEXT, "pthread_getattr_np");
  long kept = atomic_exchange(&failing, -1);
  int status = real(thread, out);
  atomic_store(&failing, kept);
  return status;
}
__attribute__((constructor)) static void start(void) {
  const char* at = getenv("FAILING");
  count = 0;
  failing = at != NULL ? atol(at) : -1;
}
__attribute__((destructor)) static void end(void) { dprintf(2, "allocations: %ld\n", count); }
"#;

#[test]
fn a_failed_allocation_is_an_error_or_an_abort() {
    let test = "a_failed_allocation_is_an_error_or_an_abort";
    let Some(library) = library(test) else { return };
    let include = format!("-I{}", root().join("runtime/c/tests/programs").display());
    let Some(allocator) = library_of_text(&tmp(), "allocator", "gcc", ALLOCATOR, &[&include])
    else {
        return skip(test, "gcc is not there");
    };
    for more in [&[][..], &["--in-this-process"]] {
        let run = |failing: usize| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_xla-ffi"));
            command.arg("run").arg(&library);
            command.args(["--handler", "add_one", "--arg", "f32[2]=1,2"]);
            command.args(["--ret", "f32[2]"]).args(more);
            // The standard library deadlocks if an allocation for a backtrace fails.
            command.env("RUST_BACKTRACE", "0");
            command.env("LD_PRELOAD", &allocator);
            command.env("FAILING", failing.to_string());
            let done = command.output().expect("the command starts");
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            (done.status, done.stdout, said)
        };
        let (status, right, said) = run(usize::MAX);
        assert!(status.success() && right == b"ret0: f32[2] [2, 3]\n");
        let counts = said.lines().filter_map(|line| {
            let count = line.strip_prefix("allocations: ")?;
            count.parse::<usize>().ok()
        });
        let count = counts.max().expect("the allocator is loaded");
        let mut ends = [0; 3];
        let step = count / cases(100, 1).max(1) as usize + 1;
        for failing in (0..count).step_by(step) {
            let (status, printed, said) = run(failing);
            let is_abort = status.signal() == Some(6) && said.contains("memory allocation of");
            let is = [
                status.success() && printed == right,
                status.code() == Some(1),
                is_abort,
            ];
            let end = is.iter().position(|is| *is);
            let end = end.unwrap_or_else(|| panic!("allocation {failing}: {status}: {said}"));
            ends[end] += 1;
        }
        println!("{more:?}: {count} allocations: {ends:?} right results, errors, aborts");
    }
}
