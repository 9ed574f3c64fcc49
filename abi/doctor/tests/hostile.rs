//! Damaged libraries are a value or an error, never a panic.
//!
//! `XLA_FFI_CASES` sets the number of cases.

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
