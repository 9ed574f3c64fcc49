//! A process that is forked from one that records has no part in the recording.

mod toy;

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::ptr;
use xla_ffi_record::{xla_ffi_record_start, xla_ffi_record_stop};

/// How a child ends, which has five seconds for it.
fn end_of(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this process, and room for the answer.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

/// Forks; the child does its work and ends with 0.
fn child(work: impl FnOnce()) -> i32 {
    // SAFETY: the child does its work and ends, without a look at what its parent's threads were at.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends a child that hangs.
        unsafe { libc::alarm(5) };
        work();
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    end_of(child)
}

fn start(folder: &Path) -> u32 {
    let path = CString::new(folder.to_str().unwrap()).unwrap();
    // SAFETY: texts that are there.
    unsafe { xla_ffi_record_start(path.as_ptr(), 1 << 30, 10, c"a test".as_ptr()) }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn calls_of_a_child_return() {
    let folder = tempfile::tempdir().unwrap();
    let increment = toy::interposed(toy::increment, "increment", "execute=increment");
    let call = || {
        assert_eq!(
            toy::call(increment, ptr::null(), &mut [1.0], |_, _| ()),
            [2.0]
        )
    };
    assert_eq!(start(folder.path()), 0);
    // Its own recording is another; what it ends is not its parent's.
    let own = tempfile::tempdir().unwrap();
    let before = files(folder.path()).len();
    let ended = child(|| {
        assert_eq!(xla_ffi_record_stop(60_000).recorded, 0);
        call();
        assert_eq!(start(own.path()), 0);
        call();
        assert_eq!(xla_ffi_record_stop(1000).recorded, 1);
    });
    assert_eq!(
        (ended, files(folder.path()).len(), files(own.path()).len()),
        (0, before, 1)
    );
    xla_ffi_record_stop(1000);
}
