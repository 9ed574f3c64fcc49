//! Wheels that nobody should install. Whatever comes, the answer is a value or an error in words, nothing is
//! written outside the folder that was given, and no more is unpacked than was allowed.

use super::sample;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use xla_ffi_doctor::Problem;
use xla_ffi_doctor::wheel::{Error, Inside, Limits, Wheel};
use xla_ffi_testing::damage::{apply, cases, damage, runner};
use xla_ffi_testing::skip;
use xla_ffi_testing::wheel::Wheel as Packed;

const NAME: &str = "mine-1.0-py3-none-manylinux_2_17_x86_64";

fn packed() -> Packed {
    Packed::named(NAME)
}

/// What reading all of a wheel comes to.
fn read(path: &Path, limits: Limits) -> Result<(Wheel, Vec<Inside>), Error> {
    let mut wheel = Wheel::open_within(path, limits)?;
    let folder = tempfile::tempdir().unwrap();
    let inside = wheel.unpack(folder.path())?;
    drop(wheel.findings(&inside));
    Ok((wheel, inside))
}

fn refusal(wheel: Packed, limits: Limits) -> Error {
    let folder = tempfile::tempdir().unwrap();
    read(&wheel.pack(folder.path()), limits).unwrap_err()
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in [
        "../outside.so",
        "mine/../../outside.so",
        "/tmp/outside.so",
        "C:/outside.so",
        "mine\\..\\outside.so",
        "mine//a.so",
        "./a.so",
    ] {
        let error = refusal(packed().member(name, b"text"), Limits::default());
        let told = error.to_string();
        assert!(matches!(error, Error::Hostile { .. }), "{name}: {told}");
        assert!(told.contains(NAME), "{told}");
    }
    // Two files on one system, one on another.
    let twice = packed().member("mine/A.so", b"1").member("mine/a.so", b"2");
    assert!(matches!(
        refusal(twice, Limits::default()),
        Error::Hostile { .. }
    ));
}

/// Opening one waits for whoever writes to it.
#[cfg(unix)]
#[test]
fn a_pipe_is_no_wheel() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join(format!("{NAME}.whl"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|made| made.success()) {
        return skip("a_pipe_is_no_wheel", "no mkfifo");
    }
    let told = read(&pipe, Limits::default()).unwrap_err().to_string();
    assert!(told.contains("it is not a regular file"), "{told}");
}

#[test]
fn bombs_do_not_go_off() {
    let limits = Limits {
        libraries: 1 << 20,
        metadata: 1 << 16,
        members: 50,
    };
    // Each within the limit, all together above it.
    let half = vec![0_u8; 600 << 10];
    let bomb = packed()
        .member("mine/a.so", &half)
        .member("mine/b.so", &half);
    let told = refusal(bomb, limits).to_string();
    assert!(
        told.contains("1048576 bytes") && told.contains("mine/b.so"),
        "{told}"
    );
    let text = packed().member("mine-1.0.dist-info/METADATA", &vec![b'a'; 1 << 17]);
    let told = refusal(text, limits).to_string();
    assert!(
        told.contains("METADATA unpacks to more than 65536"),
        "{told}"
    );
    let many = (0..60).fold(packed(), |wheel, at| {
        wheel.member(&format!("mine/{at}"), b"")
    });
    let told = refusal(many, limits).to_string();
    assert!(told.contains("members, 50 are read"), "{told}");
    // What is no library is not unpacked, however large.
    let folder = tempfile::tempdir().unwrap();
    let data = packed()
        .member("mine/a.so", b"")
        .member("mine/data", &vec![0; 4 << 20]);
    assert!(read(&data.pack(folder.path()), limits).is_ok());
}

/// A wheel whose library has 3 MiB and states another size.
fn stating(folder: &Path, stated: u32) -> PathBuf {
    let path = packed().member("mine/a.so", &vec![0; 3 << 20]).pack(folder);
    let mut bytes = std::fs::read(&path).unwrap();
    let size = u32::to_le_bytes(3 << 20);
    let places: Vec<usize> = (0..bytes.len() - 4)
        .filter(|&at| bytes[at..at + 4] == size)
        .collect();
    assert_eq!(places.len(), 2, "in the member's head and in the archive's");
    for place in places {
        bytes[place..place + 4].copy_from_slice(&stated.to_le_bytes());
    }
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_size_that_is_not_true_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let path = stating(folder.path(), 7);
    let limits = Limits {
        libraries: 1 << 20,
        ..Limits::default()
    };
    let told = read(&path, limits).unwrap_err().to_string();
    assert!(
        told.contains("1048576 bytes") || told.contains("no zip archive"),
        "{told}"
    );
}

#[test]
fn a_size_that_is_not_true_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let told = |size| {
        let path = stating(folder.path(), size);
        read(&path, Limits::default()).unwrap_err().to_string()
    };
    // What is unpacked is within every limit, what is stated is not.
    let large = told(3 << 30);
    assert!(large.contains("1073741824 bytes, at mine/a.so"), "{large}");
    let small = told(7);
    assert!(
        small.contains("mine/a.so states 7 bytes and unpacks to 3145728"),
        "{small}"
    );
}

#[test]
fn large_files_of_zeros_are_no_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let path = packed()
        .member("mine/a.so", &vec![0; 3 << 20])
        .pack(folder.path());
    let (_, inside) = read(&path, Limits::default()).unwrap();
    let foreign = inside[0].foreign.as_deref();
    assert_eq!(foreign, Some("it is no object file of a known format"));
}

#[test]
fn links_are_told_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = packed()
        .link("mine/a.so", "/etc/passwd")
        .pack(folder.path());
    let mut wheel = Wheel::open(&path).unwrap();
    let place = tempfile::tempdir().unwrap();
    let inside = wheel.unpack(place.path()).unwrap();
    assert_eq!(inside, []);
    let findings = wheel.findings(&inside);
    let told = |problem| findings.iter().find(|finding| finding.problem == problem);
    assert!(
        told(Problem::WheelMetadata)
            .unwrap()
            .what
            .contains("symbolic link")
    );
    assert!(told(Problem::NoLibrary).is_some());
}

#[test]
fn texts_for_linkers_are_no_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let text = packed()
        .member("mine/liba.so", b"INPUT(liba.so.1)\n")
        .pack(folder.path());
    assert_eq!(read(&text, Limits::default()).unwrap().1, []);
}

#[test]
fn a_name_that_is_file_and_folder_is_an_error() {
    let both = packed()
        .member("mine/a.so", b"1")
        .member("mine/a.so/b.so", b"2");
    let error = refusal(both, Limits::default());
    assert!(matches!(error, Error::Io { .. }), "{error}");
    // The member is named, not where it was to be written.
    let told = error.to_string();
    assert!(told.contains(&format!("{NAME}.whl/mine/a.so")), "{told}");
}

#[test]
fn damaged_wheels_are_survived() {
    let Some(library) = sample() else {
        return skip("damaged_wheels_are_survived", "gcc is not there");
    };
    let folder = tempfile::tempdir().unwrap();
    let path = packed()
        .member("mine/libmine.so", &library)
        .member("mine.libs/libgomp-1.so.1", &library)
        .pack(folder.path());
    assert_eq!(read(&path, Limits::default()).unwrap().1.len(), 2);
    let whole = std::fs::read(&path).unwrap();
    let limits = Limits {
        libraries: 8 << 20,
        metadata: 1 << 20,
        members: 1000,
    };
    for length in (0..whole.len()).step_by(97) {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(read(&path, limits).is_err(), "{length} bytes");
    }
    runner(cases(300, 100))
        .run(&prop::collection::vec(damage(), 1..4), |damages| {
            let mut bytes = whole.clone();
            for damage in &damages {
                apply(&mut bytes, damage);
            }
            std::fs::write(&path, &bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
            drop(read(&path, limits));
            Ok(())
        })
        .unwrap();
    // The same with an archive that is whole around a library and metadata that are not.
    runner(cases(100, 100))
        .run(&(damage(), damage()), |(one, other)| {
            let (mut library, mut record) = (library.clone(), b"mine/libmine.so,,\n".to_vec());
            apply(&mut library, &one);
            apply(&mut record, &other);
            let path = packed()
                .member("mine/libmine.so", &library)
                .member("mine-1.0.dist-info/RECORD", &record)
                .pack(folder.path());
            prop_assert!(read(&path, limits).is_ok());
            Ok(())
        })
        .unwrap();
}
