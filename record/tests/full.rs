//! A disk that is full: what cannot be written whole is counted, and no file is torn.

mod toy;

use std::ffi::CString;
use std::ptr;
use xla_ffi_record::{Recorded, xla_ffi_record_start, xla_ffi_record_stop};

/// Files may become so long; behind that is an error, as on a full disk.
fn limit(bytes: libc::rlim_t) {
    // SAFETY: nobody in this process waits for the signal that comes with the error.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: there is room for the answer.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur = bytes.min(limit.rlim_max);
    // SAFETY: the limit is there.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!((got, set), (0, 0));
}

#[test]
fn no_file_is_torn() {
    let increment = toy::interposed(toy::increment, "increment", "execute=increment");
    let folder = tempfile::tempdir().unwrap();
    let path = CString::new(folder.path().to_str().unwrap()).unwrap();
    // SAFETY: texts that are there.
    let started = unsafe { xla_ffi_record_start(path.as_ptr(), 1 << 20, 10, c"a test".as_ptr()) };
    assert_eq!(started, 0);
    limit(8192);
    // Both operands fit; the argument alone; neither.
    for count in [100, 1500, 3000] {
        let y = toy::call(increment, ptr::null(), &mut vec![1.0; count], |_, _| ());
        assert_eq!(y, vec![2.0; count]);
    }
    // What the tests say may go to a file, too.
    limit(libc::RLIM_INFINITY);
    let counts = xla_ffi_record_stop(1000);
    assert_eq!((counts.recorded, counts.failed, counts.open), (1, 2, 0));

    let mut files: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let [whole, cut] = &files[..] else {
        panic!("{files:?}");
    };
    assert!(Recorded::read(whole).unwrap().end.is_some());
    let cut_short = Recorded::read(cut).unwrap();
    assert_eq!(cut_short.args[0].as_ref().map(Vec::len), Some(6000));
    assert_eq!((cut_short.end, &cut_short.rets[..]), (None, &[None][..]));
    // It ends behind the argument: nothing of the result is left that a reader would stop at.
    let size = std::fs::metadata(cut).unwrap().len();
    assert!((6000..6800).contains(&size), "{size}");
}
