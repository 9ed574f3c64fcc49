//! Tests that the files of recorded calls can be read, and that damaged files result in an error.

mod test_host;

use proptest::prelude::*;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Mutex;
use test_host::{increment, interposed};
use xla_ffi_record::{Data, Outcome, ReadError, Recorded, Value, head};
use xla_ffi_record::{XlaFfiRecordCounts, xla_ffi_record_start, xla_ffi_record_stop};
use xla_ffi_testing::damage::{apply, cases, damage, runner};

/// Calls the increment handler through its trampoline, from a host without a function table. Returns the result.
fn call(x: &mut [f32; 3]) -> Vec<f32> {
    let function = interposed(increment, "incre/ment", "execute=increment");
    test_host::call(function, ptr::null(), x, |_, _| ())
}

/// Records the calls of `work` and returns the files in order. Only one recording runs at a time.
fn record(
    limit: u64,
    work: impl FnOnce(),
) -> (XlaFfiRecordCounts, tempfile::TempDir, Vec<PathBuf>) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let path = CString::new(folder.path().to_str().unwrap()).unwrap();
    // SAFETY: both strings are NUL-terminated.
    let start = |revision| unsafe {
        xla_ffi_record_start(path.as_ptr(), limit, revision, c"a test".as_ptr())
    };
    assert_eq!((start(99), start(10), start(10)), (2, 0, 1));
    work();
    let counts = xla_ffi_record_stop(1000);
    let mut files: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    (counts, folder, files)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let float = |chunk: &[u8]| f32::from_le_bytes(chunk.try_into().unwrap());
    bytes.chunks(4).map(float).collect()
}

fn read(path: &Path) -> Recorded {
    Recorded::read(path).unwrap()
}

#[test]
fn a_call_reads_back() {
    assert_eq!(call(&mut [1.0, 2.0, 3.0]), [2.0, 3.0, 4.0]);
    let (counts, _folder, files) = record(1 << 20, || {
        call(&mut [1.0, 2.0, 3.0]);
        call(&mut [5.0, 6.0, 7.0]);
    });
    assert_eq!(
        (
            counts.recorded,
            counts.open,
            counts.failed,
            counts.truncated
        ),
        (2, 0, 0, 0)
    );
    let name = files[0].file_name().unwrap().to_str().unwrap();
    assert_eq!(name, "000001-libtoy.incre_ment-execute.xlacall");
    let recorded = read(&files[1]);
    assert_eq!(recorded.call, head(&files[1]).unwrap());
    assert_eq!(
        (recorded.call.number, recorded.call.handler.as_str()),
        (2, "incre/ment")
    );
    assert_eq!(recorded.call.stages["execute"], "increment");
    let factor = Value::Scalar {
        dtype: 12,
        bytes: 2.5_f64.to_le_bytes().to_vec(),
    };
    assert_eq!(recorded.call.attributes, [("factor".to_owned(), factor)]);
    assert_eq!(floats(recorded.args[0].as_ref().unwrap()), [5.0, 6.0, 7.0]);
    assert_eq!(floats(recorded.rets[0].as_ref().unwrap()), [6.0, 7.0, 8.0]);
    assert_eq!(recorded.end.unwrap().outcome, Outcome::Done);
}

#[test]
fn what_is_beyond_the_limit_is_left_out_and_told() {
    let (counts, _folder, files) = record(24, || {
        call(&mut [1.0, 2.0, 3.0]);
        assert_eq!(call(&mut [5.0, 6.0, 7.0]), [6.0, 7.0, 8.0]);
    });
    assert_eq!((counts.recorded, counts.truncated), (2, 1));
    assert_eq!(read(&files[0]).call.args[0].data, Data::Kept(12));
    let left_out = read(&files[1]);
    assert_eq!(
        (left_out.call.args[0].data, &left_out.args[0]),
        (Data::Limit, &None)
    );
}

#[test]
fn a_function_under_other_stages_is_another() {
    let (_, _folder, files) = record(1 << 20, || {
        for stages in ["execute=old", "execute=new,instantiate=made", "execute=old"] {
            let function = interposed(increment, "renamed", stages);
            test_host::call(function, ptr::null(), &mut [1.0], |_, _| ());
        }
    });
    let stages = |file: &PathBuf| read(file).call.stages.into_iter().collect::<Vec<_>>();
    let pair = |stage: &str, symbol: &str| (stage.to_owned(), symbol.to_owned());
    assert_eq!(stages(&files[0]), [pair("execute", "old")]);
    assert_eq!(
        stages(&files[1]),
        [pair("execute", "new"), pair("instantiate", "made")]
    );
    assert_eq!(stages(&files[2]), [pair("execute", "old")]);
}

#[test]
fn a_call_that_never_ended_is_readable() {
    let (_, _folder, files) = record(1 << 20, || {
        call(&mut [1.0, 2.0, 3.0]);
    });
    let bytes = std::fs::read(&files[0]).unwrap();
    let whole = read(&files[0]);
    // A file that ends before the end of the arguments cannot be read. A file that ends later is read as a call that
    // did not end.
    let behind_args = bytes
        .windows(4)
        .position(|letters| letters == b"RETS")
        .unwrap();
    for length in 0..bytes.len() {
        match Recorded::parse(&bytes[..length]) {
            Ok(cut) => {
                assert!(length >= behind_args, "{length}");
                assert_eq!(
                    (&cut.call, &cut.args, &cut.end),
                    (&whole.call, &whole.args, &None)
                );
            }
            Err(error) => assert!(length < behind_args, "{length}: {error}"),
        }
    }
}

#[test]
fn foreign_files_are_told() {
    let error = |bytes: &[u8]| Recorded::parse(bytes).unwrap_err();
    assert!(matches!(error(b""), ReadError::Foreign));
    assert!(matches!(error(b"\x7fELF and so on"), ReadError::Foreign));
    let newer = error(b"XLAFFIRC\x02\0\0\0CALL").to_string();
    assert!(
        newer.contains("format 2") && newer.contains("newer"),
        "{newer}"
    );
    let missing = Recorded::read(Path::new("/nowhere/at all")).unwrap_err();
    assert!(matches!(missing, ReadError::Io(_)));
}

#[test]
fn damage_is_told_or_harmless() {
    let (_, folder, files) = record(1 << 20, || {
        call(&mut [1.0, 2.0, 3.0]);
    });
    let bytes = std::fs::read(&files[0]).unwrap();
    let whole = read(&files[0]);
    let path = folder.path().join("damaged");
    runner(cases(500, 10))
        .run(&prop::collection::vec(damage(), 1..4), |all| {
            let mut damaged = bytes.clone();
            all.iter().for_each(|one| apply(&mut damaged, one));
            match Recorded::parse(&damaged) {
                // If a shortened file can be read, only the end of the call is missing.
                Ok(read) if read.end.is_some() => prop_assert_eq!(&read, &whole),
                Ok(read) => prop_assert_eq!((&read.call, &read.args), (&whole.call, &whole.args)),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
            std::fs::write(&path, &damaged).unwrap();
            if let Ok(call) = head(&path) {
                prop_assert_eq!(call, whole.call.clone());
            }
            Ok(())
        })
        .unwrap();
}
