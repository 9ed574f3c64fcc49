//! The headers that jaxlib shipped: our definitions and libclang agree on each, and each is exactly one snapshot.

use std::collections::BTreeSet;
use xla_ffi_abi::declared::{Edition, witnesses};
use xla_ffi_abi::diff;
use xla_ffi_abi::header::{Error, Source};
use xla_ffi_abi::model::Header;
use xla_ffi_abi::snapshot::{self, Verdict};
use xla_ffi_sys::JAXLIBS;
use xla_ffi_testing::headers::{api_folder, folder_or_skip};
use xla_ffi_testing::{root, skip};

#[test]
fn every_jaxlib_has_the_header_of_its_edition() {
    let test = "every_jaxlib_has_the_header_of_its_edition";
    let Some(headers) = folder_or_skip(test) else {
        return;
    };
    let mut seen = BTreeSet::new();
    for version in witnesses(&JAXLIBS) {
        let folder = api_folder(&headers, version);
        for header in Header::ALL {
            let path = folder.join(header.file_name());
            if !path.is_file() {
                continue;
            }
            let edition = Edition::of_jaxlib(header, version).unwrap();
            let abi = match Source::open(&path, &[]).unwrap().read() {
                Ok(abi) => abi,
                Err(Error::Missing(why)) => return skip(test, &why),
                Err(error) => panic!("{version} {header}: {error}"),
            };
            let lines = diff::differences(&edition.declared(), &abi);
            assert!(lines.is_empty(), "{version} {header}: {lines:#?}");
            match snapshot::identify(&abi).unwrap() {
                Verdict::Known(known) => assert_eq!(known.edition, edition),
                Verdict::Unknown { changes, .. } => panic!("{version} {header}: {changes:#?}"),
            }
            seen.insert(edition.name());
        }
    }
    assert!(!seen.is_empty(), "there are no headers");
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
        let abi = match source.read() {
            Ok(abi) => abi,
            Err(Error::Missing(why)) => {
                return skip("committed_headers_are_the_newest_revision", &why);
            }
            Err(error) => panic!("{header}: {error}"),
        };
        match snapshot::identify(&abi).unwrap() {
            Verdict::Known(snapshot) => assert_eq!(snapshot.edition.name(), expected),
            Verdict::Unknown { changes, .. } => panic!("{header}: {changes:#?}"),
        }
    }
}
