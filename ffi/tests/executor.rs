//! Tests the threads of `async fn` handlers in forked children, and after the handlers' library is
//! closed.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use xla_ffi_runtime::{Attributes, Bundle, Error, ErrorCode, Revision, Runtime, Shape, Tensor};
use xla_ffi_testing::rust_examples;

const LIMIT: Duration = Duration::from_secs(20);

fn path() -> PathBuf {
    rust_examples().join("libexecution.so")
}

fn open() -> libloading::os::unix::Library {
    let flags = libloading::os::unix::RTLD_NOW;
    // SAFETY: the library is an example of this repository.
    unsafe { libloading::os::unix::Library::open(Some(path()), flags) }.unwrap()
}

/// Calls the handler `double_async` once. The handler sleeps until a thread that it starts wakes
/// it.
fn double(library: &libloading::os::unix::Library, delay: i64) -> Result<(), Error> {
    // SAFETY: `library!` exports handlers under their names.
    let handler = unsafe { library.get(b"double_async") }.unwrap();
    // SAFETY: the function is a handler, and it is called while its library is open.
    let bundle = unsafe { Bundle::execute(*handler) };
    let runtime = Runtime::with_threads(Revision::R10, 1);
    let attributes = Attributes::parse(&format!("{{delay_ms = {delay} : i64}}")).unwrap();
    let x = Tensor::from_slice([2], &[1.0_f32, 2.0]).unwrap();
    let shape: Shape = x.shape().clone();
    let handler = runtime.handler("double_async", bundle).unwrap();
    let executable = handler.instantiate(&attributes).unwrap();
    let call = executable.call().arg(x).ret(shape).time_limit(Some(LIMIT));
    let outcome = call.run()?;
    assert_eq!(outcome.rets[0].to_vec(), Some(vec![2.0_f32, 4.0]));
    Ok(())
}

/// Asserts that `check` returns true in a forked child.
fn in_child(check: impl Fn() -> bool) {
    // SAFETY: the child continues to run, as a forked Python process does.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the alarm only ends a child that hangs.
        unsafe { libc::alarm(20) };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        // SAFETY: `_exit` ends the child without the parent's cleanup.
        unsafe { libc::_exit(i32::from(!outcome.unwrap_or(false))) };
    }
    let mut status = -1;
    // SAFETY: `child` is a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "{status:#x}");
}

/// A forked child has none of the executor's threads. The test runs itself in a separate process without other tests.
#[test]
fn a_child_that_is_forked_after_the_first_call_is_refused() {
    const ALONE: &str = "XLA_FFI_TEST_FORKS";
    if std::env::var_os(ALONE).is_none() {
        path(); // build the library in this process, not in the child
        let status = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_child_that_is_forked_after_the_first_call_is_refused",
            ])
            .env(ALONE, "1")
            .status();
        return assert!(status.unwrap().success());
    }
    let library = open();
    in_child(|| double(&library, 1).is_ok());
    double(&library, 1).unwrap();
    in_child(|| {
        double(&library, 1).is_err_and(|error| error.code() == ErrorCode::FailedPrecondition)
    });
    double(&library, 0).unwrap();
}

fn is_mapped() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.contains(path().to_str().unwrap())
}

/// A library that has started threads stays loaded when it is closed; a library without threads is unloaded.
#[test]
fn a_library_with_threads_stays_when_it_is_closed() {
    let library = open();
    assert!(is_mapped());
    drop(library);
    assert!(!is_mapped());
    for round in 0..20 {
        let library = open();
        double(&library, round % 3).unwrap();
        drop(library);
        assert!(is_mapped());
        std::thread::sleep(Duration::from_millis(u64::try_from(round % 5).unwrap()));
    }
}
