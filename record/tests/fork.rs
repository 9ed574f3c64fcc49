//! A process that is forked from one that records: its calls return, whatever the threads of its parent held.

mod toy;

use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use xla_ffi_record::{
    Recorded, xla_ffi_record_interpose, xla_ffi_record_start, xla_ffi_record_stop,
};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error};

static FORKS: AtomicBool = AtomicBool::new(false);
static CHILD: AtomicI32 = AtomicI32::new(0);

/// y = x + 1; it may leave two processes where one came in.
unsafe extern "C-unwind" fn fork(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    if FORKS.load(Ordering::Relaxed) {
        // SAFETY: the child makes its way out of the call, and ends.
        CHILD.store(unsafe { libc::fork() }, Ordering::Relaxed);
    }
    // SAFETY: the frame is the toy host's.
    unsafe { toy::increment(frame) }
}

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
    let forks = toy::interposed(fork, "fork", "execute=fork");
    let call = || {
        assert_eq!(
            toy::call(increment, ptr::null(), &mut [1.0], |_, _| ()),
            [2.0]
        )
    };
    assert_eq!(start(folder.path()), 0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let over = &over;
            scope.spawn(move || {
                for number in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    call();
                    // New functions are interposed meanwhile, while there is room.
                    let name = CString::new(format!("{thread}-{number}")).unwrap();
                    let function = toy::increment as *mut c_void;
                    // SAFETY: a handler, and texts that are there.
                    unsafe {
                        xla_ffi_record_interpose(
                            c"/a/libtoy.so".as_ptr(),
                            name.as_ptr(),
                            c"".as_ptr(),
                            function,
                        )
                    };
                }
            });
        }
        let hung: Vec<_> = (0..400)
            .map(|_| child(call))
            .filter(|end| *end != 0)
            .collect();
        over.store(true, Ordering::Relaxed);
        assert!(hung.is_empty(), "children ended with {hung:?}");
    });

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

    // A child that comes out of a call of its parent's writes nothing of it.
    FORKS.store(true, Ordering::Relaxed);
    // SAFETY: asks for a number.
    let parent = unsafe { libc::getpid() };
    toy::call(forks, ptr::null(), &mut [1.0], |_, _| {
        // SAFETY: asks for a number.
        if unsafe { libc::getpid() } != parent {
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) };
        }
        assert_eq!(end_of(CHILD.load(Ordering::Relaxed)), 0);
    });
    let counts = xla_ffi_record_stop(1000);
    assert_eq!((counts.open, counts.failed), (0, 0));
    let read = Recorded::read(files(folder.path()).last().unwrap()).unwrap();
    assert_eq!(read.call.handler, "fork");
    assert!(read.end.is_some());
}
