//! `xla-ffi doctor --wheel` on wheels that installers refuse: metadata of another project, of another version, of no form
//! that is known, folders without a place, members that are there twice.

use super::wheel::{GOOD, MEMBER, judge, judge_file, library};
use xla_ffi_testing::skip;
use xla_ffi_testing::wheel::{METADATA, Wheel};

#[test]
fn wheels_that_are_another_project_fail() {
    let Some(library) = library("", &[]) else {
        return skip("wheels_that_are_another_project_fail", "gcc is not there");
    };
    let good = Wheel::named(GOOD).member(MEMBER, &library);
    let metadata = |from: &str, to: &str| {
        assert!(METADATA.contains(from));
        let text = METADATA.replace(from, to);
        good.clone()
            .member("mine-1.0.dist-info/METADATA", text.as_bytes())
    };
    let form = |from: &str| {
        let text = format!("{from}Root-Is-Purelib: false\nTag: py3-none-manylinux_2_17_x86_64\n");
        good.clone()
            .member("mine-1.0.dist-info/WHEEL", text.as_bytes())
    };
    let cases = [
        (form(""), "has no Wheel-Version"),
        (
            form("Wheel-Version: x\n"),
            "has a Wheel-Version that is none",
        ),
        (form("Wheel-Version: 2.0\n"), "has Wheel-Version 2.0"),
        (metadata(METADATA, ""), "has no Metadata-Version"),
        (
            metadata("Metadata-Version: 2.4\n", ""),
            "has no Metadata-Version",
        ),
        (metadata("Name: mine\n", ""), "has no Name"),
        (metadata("Version: 1.0\n", ""), "has no Version"),
        (metadata("Name: mine", "Name: other"), "the file name says"),
        (
            metadata("Name: mine", "Name: mine\nName: other"),
            "more than one Name",
        ),
        (
            metadata("Version: 1.0", "Version: 2.0"),
            "the file name says",
        ),
        (
            metadata("Version: 1.0", "Version: 1 .x"),
            "has a Version that is none",
        ),
        (
            good.clone().member("mine-1.0.data/nowhere/x", b"x"),
            "mine-1.0.data/nowhere has no place",
        ),
        (
            good.clone().member("mine-1.0.data/x", b"x"),
            "mine-1.0.data/x has no place",
        ),
    ];
    for (wheel, words) in cases {
        let told = judge(wheel, &[]);
        let (weight, text) = told.of_wheel("XF405");
        assert_eq!((weight, told.code), ("fails", Some(1)), "{words}: {text}");
        assert!(text.contains(words), "{words}: {text}");
    }
    // Other spellings of the same.
    let fine = [
        metadata("Name: mine", "Name: Mine"),
        metadata("Version: 1.0", "Version: v1.0.0"),
        metadata("Text.", "Name: other"),
        metadata(
            "License-Expression",
            "Summary: a\n  Name: other\nLicense-Expression",
        ),
        form("Wheel-Version: 1.1\n"),
        good.clone().member("mine-1.0.data/scripts/x", b"x"),
    ];
    for wheel in fine {
        let told = judge(wheel, &[]);
        assert_eq!(told.code, Some(0), "{:#}", told.whole);
        assert!(
            !told.whole.to_string().contains("XF405"),
            "{:#}",
            told.whole
        );
    }
}

#[test]
fn members_that_are_there_twice_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (first, second) in [
        ("mine/libmina.so", "mine/libmine.so"),
        ("mine-1.0.dist-info/METADATO", "mine-1.0.dist-info/METADATA"),
    ] {
        let wheel = Wheel::named(GOOD).member(first, b"one");
        let path = wheel.member(second, b"two").pack(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        // Whoever writes archives here writes no name twice: one is made the other.
        let places = bytes.windows(first.len()).enumerate();
        let places = places.filter(|(_, name)| *name == first.as_bytes());
        let places: Vec<usize> = places.map(|(at, _)| at).collect();
        for at in places {
            bytes[at..at + second.len()].copy_from_slice(second.as_bytes());
        }
        std::fs::write(&path, bytes).unwrap();
        let told = judge_file(&path, &[]);
        assert_eq!(told.code, Some(1), "{:#}", told.whole);
        let error = told.whole["error"].as_str().unwrap();
        assert!(
            error.contains(second) && error.contains("is there twice"),
            "{error}"
        );
    }
}
