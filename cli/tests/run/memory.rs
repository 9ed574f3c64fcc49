//! Runs `xla-ffi run` with failing allocations. A run must print the right result, or end with an error or with the abort
//! of Rust's allocator.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use crate::*;
use std::os::unix::process::ExitStatusExt;
use xla_ffi_testing::compiler::library_of_text;

/// Replaces the allocation functions of glibc. The allocation with the number `FAILING` fails in each process, and each
/// process prints its number of allocations.
const ALLOCATOR: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
static atomic_long count, failing = -1;
static _Thread_local int spared;
static int fails(void) { return !spared && atomic_fetch_add(&count, 1) == atomic_load(&failing); }
void* malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void* calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
void* realloc(void* memory, size_t size) { return fails() ? NULL : __libc_realloc(memory, size); }
void* aligned_alloc(size_t alignment, size_t size) { return fails() ? NULL : __libc_memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  void* memory = aligned_alloc(alignment, size);
  if (memory != NULL) *out = memory;
  return memory != NULL ? 0 : ENOMEM;
}
// Rust calls this function of glibc before main. It crashes if its allocation fails.
int pthread_getattr_np(pthread_t thread, pthread_attr_t* out) {
  int (*real)(pthread_t, pthread_attr_t*) = dlsym(RTLD_NEXT, "pthread_getattr_np");
  spared = 1;
  int status = real(thread, out);
  spared = 0;
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
    let allocator = library_of_text(&tmp(), "allocator", "cc", ALLOCATOR, &[]).expect("cc");
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
        for failing in (0..count).step_by(count / 100 + 1) {
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
