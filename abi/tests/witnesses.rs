//! The three witnesses against the headers that jaxlib shipped: our definitions, libclang, and
//! the compiler's debug information say the same, and each header is exactly one snapshot.

use std::collections::BTreeSet;
use std::path::Path;
use xla_ffi_abi::declared::{EDITIONS, Edition, witnesses};
use xla_ffi_abi::diff;
use xla_ffi_abi::header::{Error, Source};
use xla_ffi_abi::model::{Abi, Header};
use xla_ffi_abi::reader::Reader;
use xla_ffi_abi::snapshot::{self, Verdict};
use xla_ffi_sys::JAXLIBS;
use xla_ffi_testing::headers::{self, api_folder};
use xla_ffi_testing::{root, skip};

/// Checks one header file; gives the edition that it is and the readers that were missing.
fn check(path: &Path, version: &str, header: Header) -> (String, Vec<String>) {
    let edition = Edition::of_jaxlib(header, version)
        .unwrap_or_else(|| panic!("{version} is in no edition's range but ships {header}"));
    let declared = edition.declared();
    let source = Source::open(path, &[]).unwrap();
    let mut read: Vec<(Reader, Abi)> = Vec::new();
    let mut missing = Vec::new();
    for reader in [Reader::Clang, Reader::Dwarf] {
        match source.read(reader) {
            Ok(abi) => read.push((reader, abi)),
            Err(Error::Missing(why)) => missing.push(format!("{reader}: {why}")),
            Err(error) => panic!("{version} {header}, {reader}: {error}"),
        }
    }
    for (reader, abi) in &read {
        let lines = diff::differences(&declared, abi);
        assert!(
            lines.is_empty(),
            "{version} {header}: our definitions and {reader} differ:\n{}",
            lines.join("\n")
        );
        let matching: Vec<String> = snapshot::all()
            .unwrap()
            .iter()
            .filter(|snapshot| snapshot.abi == *abi)
            .map(|snapshot| snapshot.edition.name())
            .collect();
        assert_eq!(matching, [edition.name()], "{version} {header}, {reader}");
    }
    if let [(_, one), (_, other)] = read.as_slice() {
        assert_eq!(one, other, "{version} {header}: the two opinions differ");
    }
    (edition.name(), missing)
}

#[test]
fn three_witnesses_agree_on_every_listed_jaxlib() {
    let Some(headers) = headers::folder() else {
        skip(
            "three_witnesses_agree_on_every_listed_jaxlib",
            "XLA_FFI_JAXLIB_HEADERS is not set (cargo xtask test sets it)",
        );
        return;
    };
    // What else lies in the cache says nothing of the project.
    let versions = witnesses(&JAXLIBS);
    let mut seen = BTreeSet::new();
    let mut missing = BTreeSet::new();
    for version in &versions {
        let folder = api_folder(&headers, version);
        assert!(
            folder.join(Header::Main.file_name()).is_file(),
            "jaxlib {version} is listed, but {} holds no c_api.h",
            folder.display()
        );
        for header in Header::ALL {
            let path = folder.join(header.file_name());
            if path.is_file() {
                let (edition, lacks) = check(&path, version, header);
                println!("jaxlib {version} {header}: {edition}");
                seen.insert(edition);
                missing.extend(lacks);
            }
        }
    }
    println!(
        "{} of {} editions met in {} releases",
        seen.len(),
        EDITIONS.len(),
        versions.len()
    );
    assert!(missing.len() < 2, "neither reader is there: {missing:?}");
    for why in missing {
        skip("second opinion on the headers of jaxlib", &why);
    }
}

#[test]
fn committed_headers_are_the_newest_revision() {
    let folder = root().join("include/xla/ffi/api");
    for (header, expected) in [
        (Header::Main, "r10"),
        (Header::Record, "record-0.2"),
        (Header::Collectives, "collectives-0.2"),
    ] {
        let source = Source::open(&folder.join(header.file_name()), &[]).unwrap();
        let opinions = match source.opinions() {
            Ok(opinions) => opinions,
            Err(error @ Error::NoReader { .. }) => {
                skip(
                    "committed_headers_are_the_newest_revision",
                    &error.to_string(),
                );
                return;
            }
            Err(error) => panic!("{header}: {error}"),
        };
        assert!(
            opinions.disagreement.is_empty(),
            "{:?}",
            opinions.disagreement
        );
        match snapshot::identify(&opinions.abi).unwrap() {
            Verdict::Known(snapshot) => assert_eq!(snapshot.edition.name(), expected),
            Verdict::Unknown { nearest, changes } => panic!(
                "{header} is no known header; nearest {}: {changes:#?}",
                nearest.edition.name()
            ),
        }
    }
}
