//! Damaged and hostile input: libraries, manifests. Whatever comes, the answer is a value or an error,
//! never a panic.
//!
//! `XLA_FFI_CASES` sets the number of cases: that many of what is cheap, a fraction of what is not.

mod wheels;

use proptest::prelude::*;
use std::path::Path;
use xla_ffi_abi::dwarf;
use xla_ffi_doctor::{Examination, library, manifest};
use xla_ffi_testing::compiler::library_of_text;
use xla_ffi_testing::damage::{apply, cases, damage, runner};
use xla_ffi_testing::skip;

const LIBRARY: &str = r#"
#include "xla/ffi/api/c_api.h"
__attribute__((section(".xla_ffi_manifest"), used, aligned(16)))
const unsigned char xla_ffi_manifest[] = "XLAFFIMF\1\0\0\0\101\0\0\0"
  "{\"library\":\"l\",\"sdk\":\"0\",\"handlers\":[]}                          ";
XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) { return frame->api ? NULL : NULL; }
"#;

/// A small library with debug information and a manifest.
fn sample() -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let library = library_of_text(folder.path(), "sample", "gcc", LIBRARY, &["-g"])?;
    Some(std::fs::read(&library).unwrap())
}

#[test]
fn damaged_libraries_are_survived() {
    let Some(whole) = sample() else {
        return skip("damaged_libraries_are_survived", "gcc is not there");
    };
    let path = Path::new("damaged.so");
    assert!(library::read(path, &whole).is_ok());
    assert_eq!(manifest::read(&whole).unwrap().len(), 1);
    assert!(!dwarf::read_library(&whole).unwrap().is_empty());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("damaged.so");
    runner(cases(600, 100))
        .run(&prop::collection::vec(damage(), 1..5), |damages| {
            let mut bytes = whole.clone();
            for damage in &damages {
                apply(&mut bytes, damage);
            }
            let _ = library::read(path, &bytes);
            let _ = manifest::read(&bytes);
            let _ = dwarf::read_library(&bytes);
            Ok(())
        })
        .unwrap();
    runner(30)
        .run(&damage(), |damage| {
            let mut bytes = whole.clone();
            apply(&mut bytes, &damage);
            std::fs::write(&file, &bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let _ = Examination::of(&file);
            Ok(())
        })
        .unwrap();
}

#[test]
fn every_truncation_of_a_library_is_survived() {
    let Some(whole) = sample() else {
        return skip(
            "every_truncation_of_a_library_is_survived",
            "gcc is not there",
        );
    };
    for length in (0..whole.len()).step_by(41) {
        let bytes = &whole[..length];
        let _ = library::read(Path::new("short.so"), bytes);
        let _ = manifest::read(bytes);
        let _ = dwarf::read_library(bytes);
    }
}

#[test]
fn damaged_manifests_are_survived() {
    let payload = r#"{"library":"l","sdk":"0.1.0","register":"l__r","handlers":[{"name":"h",
        "platforms":["cpu"],"stages":{"execute":"l__h"},"args":[{"name":"x","kind":"buffer",
        "dtypes":["F32"],"rank":null}],"rets":[],"attrs":[{"name":"a","type":"[f32]"}],
        "floor":"r1","state":{"type":"T"}}]}"#;
    let mut whole = b"XLAFFIMF\x01\0\0\0".to_vec();
    whole.extend((payload.len() as u32).to_le_bytes());
    whole.extend(payload.bytes());
    assert_eq!(manifest::read_section(&whole, 0).unwrap().len(), 1);
    runner(cases(2000, 1))
        .run(
            &(prop::collection::vec(damage(), 1..4), any::<u64>()),
            |(damages, address)| {
                let mut bytes = whole.clone();
                for damage in &damages {
                    apply(&mut bytes, damage);
                }
                if let Err(error) = manifest::read_section(&bytes, address) {
                    prop_assert!(!error.to_string().is_empty());
                }
                Ok(())
            },
        )
        .unwrap();
}
